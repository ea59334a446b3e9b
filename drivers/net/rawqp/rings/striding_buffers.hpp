// SPDX-License-Identifier: BSD-3-Clause
// The packet memory of a striding receive queue. A buffer holds the packets of one WQE; those that
// are not copied are attached to mbufs as external buffers, so it may outlive its queue: whoever
// drops the last reference frees what is left.
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
    /// The application still holds packets of it. Acquires: what it wrote into returned ones has
    /// happened before.
    [[nodiscard]] bool in_use() const { return __atomic_load_n(&references, __ATOMIC_ACQUIRE) > 1; }
    void add_references(uint32_t count) {
        __atomic_add_fetch(&references, count, __ATOMIC_RELAXED);
    }
    /// Any thread.
    void drop_references(uint32_t count);
    /// Each stride's free_cb, by which an attached packet is recognised.
    static void free_packet(void*, void* buffer);
};
static_assert(sizeof(StridingBuffer) % alignof(rte_mbuf_ext_shared_info) == 0);

/// Lives until its ring has left and all of its buffers are back.
struct StridingPool {
    rte_mempool* mempool = nullptr;
    uint32_t users = 1;       ///< the ring, and each buffer that is in use
    uint32_t data_offset = 0; ///< from a StridingBuffer to its first stride; headroom before that

    /// A buffer with one reference, or null. One thread at a time.
    [[nodiscard]] StridingBuffer* take();
    /// The ring goes away and may not use anything of the pool any more.
    void leave();
};

/// Detaches packets from mbufs, one after the other. References to the same buffer are dropped
/// together, where rte_pktmbuf_detach() would call back for each, and what the mbufs of a pool have
/// in common is looked up once.
class StridingDetacher {
  public:
    ~StridingDetacher() { give_back(); }
    /// Restores the mbuf to the state in which its pool made it, held by nobody else. Returns false
    /// and does nothing if no packet of a StridingBuffer is attached, or somebody else holds the
    /// packet or the mbuf.
    [[nodiscard]] bool detach(rte_mbuf& mbuf) {
        if (!RTE_MBUF_HAS_EXTBUF(&mbuf) || mbuf.shinfo->free_cb != StridingBuffer::free_packet ||
            rte_mbuf_refcnt_read(&mbuf) != 1 || rte_mbuf_ext_refcnt_read(mbuf.shinfo) != 1)
            return false;
        auto* const buffer = static_cast<StridingBuffer*>(mbuf.shinfo->fcb_opaque);
        if (buffer != buffer_) {
            give_back();
            buffer_ = buffer;
        }
        ++references_;
        if (mbuf.pool != own_.pool) look_at(mbuf.pool);
        own_.restore(mbuf);
        return true;
    }

  private:
    /// What the mbufs of a pool have in common.
    struct OwnBuffer {
        rte_mempool* pool = nullptr;
        uint32_t offset = 0; ///< from an mbuf
        uint16_t bytes = 0, data_offset = 0;

        void restore(rte_mbuf& mbuf) const {
            mbuf.buf_addr = reinterpret_cast<uint8_t*>(&mbuf) + offset;
            rte_mbuf_iova_set(&mbuf, rte_mempool_virt2iova(&mbuf) + offset);
            mbuf.buf_len = bytes;
            mbuf.data_off = data_offset;
            mbuf.data_len = 0;
            mbuf.ol_flags = 0;
            if (mbuf.next == nullptr) [[likely]]
                return;
            mbuf.next = nullptr;
            mbuf.nb_segs = 1;
        }
    };
    void look_at(rte_mempool* pool);
    void give_back() {
        // Those are to a buffer. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage)
        if (references_ > 0) buffer_->drop_references(std::exchange(references_, 0u));
    }

    StridingBuffer* buffer_ = nullptr;
    uint32_t references_ = 0; ///< to buffer_, to be dropped
    OwnBuffer own_;
};

/// `count` buffers of `strides` strides. ENOMEM when memory is short.
[[nodiscard]] Result<StridingPool*> make_striding_pool(const std::string& queue, uint32_t count,
                                                       uint32_t strides, uint32_t stride_bytes,
                                                       int socket);

} // namespace rawqp
