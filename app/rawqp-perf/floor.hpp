// SPDX-License-Identifier: BSD-3-Clause
// The floor: what no driver can go below on mapped mlx5 rings.
//
// Not a driver. Rx reads each CQE's line, writes the first line of the mbuf and refills the WQE's
// address from a stack of mbufs; Tx reads address and length of each mbuf, writes one eMPW data
// segment for it and rings once a burst. No offloads, errors, statistics, lkey look-up, mempool;
// Tx mbufs are freed and completions consumed outside the measured calls.
#pragma once

#include "app/rawqp-perf/port.hpp"
#include "common/mlx5/formats.hpp"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <vector>

namespace perf {

struct VerbsDelete {
    void operator()(ibv_context* object) const;
    void operator()(ibv_pd* object) const;
    void operator()(ibv_mr* object) const;
    void operator()(ibv_cq* object) const;
    void operator()(ibv_wq* object) const;
    void operator()(ibv_rwq_ind_table* object) const;
    void operator()(ibv_qp* object) const;
    void operator()(ibv_flow* object) const;
};
template <class T> using VerbsHandle = std::unique_ptr<T, VerbsDelete>;

/// The RDMA device, opened. Looks like a Port to Rounds. One thread.
class Floor {
  public:
    /// Throws std::runtime_error when the device is no mlx5 device with eMPW.
    Floor(const std::string& device, uint16_t descriptors, unsigned spare_mbufs);
    ~Floor();

    uint16_t rx(uint16_t queue, rte_mbuf** mbufs, uint16_t count);
    uint16_t tx(uint16_t queue, rte_mbuf** mbufs, uint16_t count);
    /// Frees what was sent, consumes the completions, fills the stack of mbufs.
    void ready();

    [[nodiscard]] uint16_t queues() const { return 1; }
    [[nodiscard]] rte_mempool* pool() const { return pool_.get(); }
    [[nodiscard]] rte_ether_addr mac() const { return mac_; }
    [[nodiscard]] static std::string driver() { return "floor"; }
    [[nodiscard]] static std::string modes() { return "hand-written loop"; }

  private:
    void open(const std::string& device);
    void create_rx();
    void create_tx();
    void steer();
    void register_pool();

    Pool pool_;
    VerbsHandle<ibv_context> context_;
    VerbsHandle<ibv_pd> pd_;
    VerbsHandle<ibv_mr> mr_;
    VerbsHandle<ibv_cq> rx_cq_, tx_cq_;
    VerbsHandle<ibv_wq> wq_;
    VerbsHandle<ibv_rwq_ind_table> table_;
    VerbsHandle<ibv_qp> rx_qp_, tx_qp_;
    VerbsHandle<ibv_flow> flow_;
    rte_ether_addr mac_{};
    std::string name_;
    uint16_t descriptors_;

    struct Ring {
        mlx5::Cqe* cqes = nullptr;
        uint32_t cq_mask = 0, log_cqes = 0;
        mlx5::CqDoorbell* cq_doorbell = nullptr;
        uint32_t consumer = 0;
        uint32_t mask = 0; ///< WQEs (Rx) or WQEBBs (Tx)
        mlx5::QueueDoorbell* doorbell = nullptr;
        uint16_t producer = 0;
        void map_cq(const mlx5dv_cq& cq);
    };
    Ring rx_, tx_;
    mlx5::WqeDataSeg* rx_wqes_ = nullptr;
    uint8_t* tx_wqes_ = nullptr;
    volatile uint64_t* uar_ = nullptr;
    uint32_t lkey_be_ = 0;
    std::vector<rte_mbuf*> elements_, stack_, sent_;
};

} // namespace perf
