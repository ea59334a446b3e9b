// SPDX-License-Identifier: BSD-3-Clause
// The mbufs of a send queue: every segment handed to the device, in order, until it is completed.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"

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
    /// Slots from the head to the end of the array, which are contiguous.
    [[nodiscard]] uint16_t run() const {
        return static_cast<uint16_t>(mask_ + 1 - (head_ & mask_));
    }

    /// Frees the segments before position `end`. With `pool`, each is a whole packet, a direct mbuf
    /// of that pool that only this queue holds: they go back in bulk without being read.
    void free_until(uint16_t end, rte_mempool* pool = nullptr);
    void free_all() { free_until(head_); }
    void rewind() { head_ = tail_ = 0; }

  private:
    rte_mbuf** slots_ = nullptr;
    uint16_t mask_ = 0;
    uint16_t head_ = 0;
    uint16_t tail_ = 0;
    SocketArray<rte_mbuf*> memory_;
};

} // namespace rawqp
