// SPDX-License-Identifier: BSD-3-Clause
// Queues created by plain verbs calls, without a driver: the base of the hand-written loops that
// drivers are compared with.
#pragma once

#include "app/rawqp-perf/port.hpp"
#include "app/rawqp-perf/ring_array.hpp"

#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace perf {

struct VerbsDelete {
    void operator()(ibv_context* object) const;
    void operator()(ibv_pd* object) const;
    void operator()(ibv_td* object) const;
    void operator()(ibv_mr* object) const;
    void operator()(ibv_cq* object) const;
    void operator()(ibv_wq* object) const;
    void operator()(ibv_rwq_ind_table* object) const;
    void operator()(ibv_qp* object) const;
    void operator()(ibv_flow* object) const;
};
template <class T> using VerbsHandle = std::unique_ptr<T, VerbsDelete>;

/// One queue in each direction, ready for traffic. CQs can be read by ibv_start_poll, and the QP
/// written by ibv_wr_*.
struct VerbsQueue {
    VerbsHandle<ibv_cq> rx_cq, tx_cq;
    VerbsHandle<ibv_wq> wq;
    VerbsHandle<ibv_rwq_ind_table> table;
    VerbsHandle<ibv_qp> rx_qp, tx_qp;
    VerbsHandle<ibv_flow> flow; ///< takes UDP frames from the source port queue_ports() says
};

/// The RDMA device, opened, with its pool and queues. With rx, tx and ready of a derived class, it
/// looks like a Port to Rounds. One thread.
class VerbsEnd {
  public:
    [[nodiscard]] uint16_t queues() const { return static_cast<uint16_t>(verbs_.size()); }
    [[nodiscard]] rte_mempool* pool() const { return pool_.get(); }
    [[nodiscard]] rte_ether_addr mac() const { return mac_; }
    /// The UDP source port whose frames arrive at each queue.
    [[nodiscard]] std::vector<uint16_t> queue_ports() const;

    /// Empty: a trace finds them by their symbols.
    [[nodiscard]] static std::vector<const void*> bursts() { return {}; }
    /// The stack of free mbufs.
    [[nodiscard]] std::vector<MemorySpan> stack() const {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): it is one of pointers
        return {{stack_.data(), stack_.capacity() * sizeof stack_[0]}};
    }

  protected:
    /// Packet memory and rings are on huge pages, as a Port's are. Throws std::runtime_error.
    VerbsEnd(const std::string& device, const PortSetup& setup);
    ~VerbsEnd() = default;
    VerbsEnd(const VerbsEnd&) = delete;
    VerbsEnd& operator=(const VerbsEnd&) = delete;

    /// From now on no frame arrives and the device touches no buffer.
    void close_queues() { verbs_.clear(); }
    /// Brings the stack to `count` mbufs, from the pool or to it. Not timed.
    void level_stack(size_t count);

    [[noreturn]] void fail(const std::string& what, int error) const;
    void check(int status, const char* what) const {
        if (status != 0) fail(what, status);
    }
    std::string name_;
    uint16_t descriptors_; ///< of each ring, a power of two
    int socket_;           ///< of the rings
    std::vector<VerbsQueue> verbs_;
    uint32_t lkey_ = 0;
    std::vector<rte_mbuf*> stack_; ///< free mbufs, the hottest on top: the only pool of all queues

  private:
    void open();
    void register_pool();
    void create_domain();
    VerbsQueue create_queue(uint16_t source_port);
    VerbsHandle<ibv_cq> create_cq();
    void create_rx(VerbsQueue& queue);
    void create_tx(VerbsQueue& queue);
    void steer(VerbsQueue& queue, uint16_t source_port);
    template <class T> T* check(T* object, const char* what) const {
        if (object == nullptr) fail(what, errno);
        return object;
    }
    static void* allocate(ibv_pd* pd, void* self, size_t bytes, size_t alignment, uint64_t type);
    static void release(ibv_pd* pd, void* self, void* memory, uint64_t type);

    Pool pool_;
    rte_ether_addr mac_{};
    VerbsHandle<ibv_context> context_;
    VerbsHandle<ibv_pd> pd_;
    VerbsHandle<ibv_mr> mr_;
    VerbsHandle<ibv_td> thread_;
    VerbsHandle<ibv_pd> domain_;
};

} // namespace perf
