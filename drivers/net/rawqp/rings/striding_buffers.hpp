// SPDX-License-Identifier: BSD-3-Clause
// The packet memory of a striding receive queue. A buffer holds the packets of one WQE; those that
// are not copied are attached to mbufs as external buffers, so it may outlive its queue: whoever
// gives the last reference back frees what is left.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <string>
#include <utility>

namespace rawqp {

struct StridingPool;

/// In DPDK memory, followed by one rte_mbuf_ext_shared_info for each stride, then by the data.
struct StridingBuffer {
    StridingPool* pool = nullptr;
    uint32_t references = 0; ///< the ring's own and one for each attached packet

    [[nodiscard]] rte_mbuf_ext_shared_info& info(uint32_t stride) {
        return reinterpret_cast<rte_mbuf_ext_shared_info*>(this + 1)[stride];
    }
    /// Packets of it are still out. What the application wrote into them has happened before.
    [[nodiscard]] bool in_use() const { return __atomic_load_n(&references, __ATOMIC_ACQUIRE) > 1; }
    void add_references(uint32_t count) {
        __atomic_add_fetch(&references, count, __ATOMIC_RELAXED);
    }
    /// Any thread.
    void drop_references(uint32_t count);
};
static_assert(sizeof(StridingBuffer) % alignof(rte_mbuf_ext_shared_info) == 0);

/// Lives until its ring has left and all of its buffers are back.
struct StridingPool {
    rte_mempool* mempool = nullptr;
    uint32_t users = 1;       ///< the ring, and each buffer that is in use
    uint32_t data_offset = 0; ///< from a StridingBuffer to its first stride; headroom before that

    /// A buffer with one reference, or null. One thread at a time.
    [[nodiscard]] StridingBuffer* take();
    /// The ring goes. Nothing of the pool may be used by it any more.
    void leave();
};

/// Frees what is attached to mbufs, one after the other: their references to the same buffer go
/// back together, where rte_pktmbuf_detach() would call back for each.
class StridingDetacher {
  public:
    ~StridingDetacher() { give_back(); }
    /// Gives the mbuf its own buffer again. Nothing is done if it has no packet of a StridingBuffer
    /// attached, or somebody else holds that as well.
    void detach(rte_mbuf& mbuf) {
        if (RTE_MBUF_HAS_EXTBUF(&mbuf)) detach_external(mbuf);
    }

  private:
    void detach_external(rte_mbuf& mbuf);
    void give_back() {
        if (references_ > 0) buffer_->drop_references(std::exchange(references_, 0u));
    }

    StridingBuffer* buffer_ = nullptr;
    uint32_t references_ = 0; ///< to it, that are to go back
};

/// `count` buffers of `strides` strides. ENOMEM when memory is short.
[[nodiscard]] Result<StridingPool*> make_striding_pool(const std::string& queue, uint32_t count,
                                                       uint32_t strides, uint32_t stride_bytes,
                                                       int socket);

} // namespace rawqp
