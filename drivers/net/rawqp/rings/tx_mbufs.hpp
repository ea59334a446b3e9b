// SPDX-License-Identifier: BSD-3-Clause
// The mbufs of a send queue: every segment handed to the device, in order, until it is completed.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"
#include "drivers/net/rawqp/rings/striding_buffers.hpp"

namespace rawqp {

/// A ring of mbuf segments. Each takes one descriptor. Used by the queue's lcore only.
class TxMbufs {
  public:
    /// `descriptors` is a power of two. False: no memory.
    [[nodiscard]] bool create(uint16_t descriptors, int socket) {
        memory_ = socket_array<rte_mbuf*>(descriptors, socket);
        slots_ = memory_.get();
        mask_ = static_cast<uint16_t>(descriptors - 1);
        return slots_ != nullptr;
    }

    [[nodiscard]] uint16_t head() const { return head_; } ///< position of the next segment
    [[nodiscard]] uint16_t tail() const { return tail_; } ///< position of the oldest segment held
    [[nodiscard]] uint16_t used() const { return static_cast<uint16_t>(head_ - tail_); }
    [[nodiscard]] uint16_t room() const { return static_cast<uint16_t>(mask_ + 1 - used()); }
    [[nodiscard]] uint16_t size() const { return static_cast<uint16_t>(mask_ + 1); }

    [[nodiscard]] rte_mbuf*& slot(uint16_t position) { return slots_[position & mask_]; }
    [[nodiscard]] const rte_mbuf* at(uint16_t position) const { return slots_[position & mask_]; }
    void set_head(uint16_t head) { head_ = head; }
    /// Slots from the head to the end of the array: as many lie side by side.
    [[nodiscard]] uint16_t run() const {
        return static_cast<uint16_t>(mask_ + 1 - (head_ & mask_));
    }

    /// Frees the segments before position `end`. With `pool` each is a whole packet that this queue
    /// alone holds, straight from that pool: they go back in bulk and nobody looks at them.
    void free_until(uint16_t end, rte_mempool* pool = nullptr) {
        while (tail_ != end) {
            const uint16_t first = tail_ & mask_;
            const uint16_t wanted = static_cast<uint16_t>(end - tail_);
            const uint16_t run = RTE_MIN(wanted, static_cast<uint16_t>(mask_ + 1 - first));
            tail_ = static_cast<uint16_t>(tail_ + run);
            // Another process may go on with the ring of one that was killed here: let these mbufs
            // be lost then rather than freed twice.
            rte_compiler_barrier();
            if (pool != nullptr)
                rte_mempool_put_bulk(pool, reinterpret_cast<void**>(&slots_[first]), run);
            else
                free_segments(&slots_[first], run);
        }
    }
    void free_all() { free_until(head_); }
    void rewind() { head_ = tail_ = 0; }

  private:
    /// Any mbufs: shared, attached, of several pools. Neighbours of one pool go back together.
    static void free_segments(rte_mbuf** segments, uint16_t count) {
        constexpr unsigned kBatch = 64;
        // Mbufs that come back from the device after a while are not in the first caches, and most
        // of this loop was to wait for them: with attached packets, 20 cycles each, 13 with this.
        constexpr unsigned kAhead = 8;
        rte_mbuf* batch[kBatch];
        unsigned filled = 0;
        StridingDetacher detacher;
        for (uint16_t i = 0; i < count; ++i) {
            if (i + kAhead < count) {
                const auto* const ahead = reinterpret_cast<const uint8_t*>(segments[i + kAhead]);
                rte_prefetch0(ahead);
                rte_prefetch0(ahead + RTE_CACHE_LINE_SIZE);
            }
            detacher.detach(*segments[i]);
            rte_mbuf* const segment = rte_pktmbuf_prefree_seg(segments[i]);
            if (segment == nullptr) continue; // someone else still holds it
            if (filled == kBatch || (filled > 0 && segment->pool != batch[0]->pool)) {
                rte_mempool_put_bulk(batch[0]->pool, reinterpret_cast<void**>(batch), filled);
                filled = 0;
            }
            batch[filled++] = segment;
        }
        if (filled > 0)
            rte_mempool_put_bulk(batch[0]->pool, reinterpret_cast<void**>(batch), filled);
    }

    rte_mbuf** slots_ = nullptr;
    uint16_t mask_ = 0;
    uint16_t head_ = 0;
    uint16_t tail_ = 0;
    SocketArray<rte_mbuf*> memory_;
};

} // namespace rawqp
