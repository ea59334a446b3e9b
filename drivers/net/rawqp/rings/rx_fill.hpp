// SPDX-License-Identifier: BSD-3-Clause
// Puts buffers into receive rings of any format and takes them out.
//
// A ring type has: mbufs[slot << log_segments | segment], descriptors() of them, producer and mask,
// missing(), pool, segments, rearm, base_flags; segment(i), the RxSegment of a packet's i-th mbuf;
// and write_segment(index, mbuf), which makes the descriptor `index` point at the mbuf's data
// (false: that memory has no lkey). In slots that the device does not own, a null pointer marks a
// buffer to be replaced; the other buffers of such a slot stay where they are.
#pragma once

#include "drivers/net/rawqp/rings/rx_common.hpp"

#include <algorithm>

namespace rawqp {

/// Segments that one step of fill_ring deals with at most.
inline constexpr unsigned kFillBatch = 2 * kMaxRxSegments;

/// Fills the `count` slots from `first` on, which do not wrap and hold kFillBatch segments at most.
/// False: the pool is empty or its memory cannot be registered; what was filled stays filled.
template <class Ring> bool fill_slots(Ring& ring, uint16_t first, uint16_t count) {
    rte_mbuf* fresh[kFillBatch];
    const uint32_t begin = uint32_t{first} << ring.log_segments;
    const uint32_t end = (uint32_t{first} + count) << ring.log_segments;
    const auto wanted = static_cast<unsigned>(
        std::count(&ring.mbufs[begin], &ring.mbufs[end], static_cast<rte_mbuf*>(nullptr)));
    if (wanted == 0) return true;
    if (!take_mbufs(ring.pool, fresh, wanted)) return false;
    unsigned used = 0;
    for (uint32_t i = begin; i < end; ++i) {
        if (ring.mbufs[i] != nullptr) continue;
        if (!ring.write_segment(i, *fresh[used])) {
            return_mbufs(&fresh[used], wanted - used);
            return false;
        }
        rte_compiler_barrier(); // even if the process is killed, a slot has what its WQE says
        ring.mbufs[i] = fresh[used++];
    }
    return true;
}

/// As fill_slots, for segments from several pools.
template <class Ring> bool fill_split_slots(Ring& ring, uint16_t first, uint16_t count) {
    rte_mbuf* fresh[kFillBatch];
    for (uint32_t column = 0; column < ring.segments; ++column) {
        rte_mempool* const pool = ring.segment(column).pool;
        uint32_t lacking[kFillBatch];
        unsigned wanted = 0;
        for (uint32_t slot = first; slot < uint32_t{first} + count; ++slot) {
            const uint32_t index = (slot << ring.log_segments) + column;
            if (ring.mbufs[index] == nullptr) lacking[wanted++] = index;
        }
        if (wanted > 0 && !take_mbufs(pool, fresh, wanted)) return false;
        for (unsigned i = 0; i < wanted; ++i) {
            if (!ring.write_segment(lacking[i], *fresh[i])) {
                return_mbufs(&fresh[i], wanted - i);
                return false;
            }
            rte_compiler_barrier(); // as above
            ring.mbufs[lacking[i]] = fresh[i];
        }
    }
    return true;
}

/// Moves the producer past every slot that can get its buffers, calling `fill(ring, first, count)`
/// for runs that do not wrap. False: buffers are still missing.
template <class Ring, class Fill> bool fill_ring(Ring& ring, Fill fill) {
    while (ring.missing() > 0) {
        const uint16_t slot = ring.producer & ring.mask;
        const auto to_end = static_cast<uint16_t>(ring.mask + 1 - slot);
        const auto most = static_cast<uint16_t>(kFillBatch >> ring.log_segments);
        uint16_t run = std::min({ring.missing(), to_end, most});
        while (!fill(ring, slot, run)) {
            run /= 2; // a pool that is nearly empty still has something for a starving ring
            if (run == 0) return false;
        }
        ring.producer = static_cast<uint16_t>(ring.producer + run);
    }
    return true;
}

/// Buffers that the missing slots lack: a packet may have used only some of a slot's buffers.
template <class Ring> uint16_t lacking_buffers(const Ring& ring) {
    if (ring.segments == 1) return ring.missing();
    uint16_t lacking = 0;
    for (uint32_t i = 0; i < uint32_t{ring.missing()} << ring.log_segments; ++i) {
        const uint32_t index = (uint32_t{ring.producer} << ring.log_segments) + i;
        lacking += ring.mbufs[index & (ring.descriptors() - 1)] == nullptr;
    }
    return lacking;
}

/// The error of a failed start, after the ring has returned all buffers: names the pool that is too
/// small.
template <class Ring> tl::unexpected<Error> not_filled(const Ring& ring) {
    for (uint32_t i = 0; i < ring.segments; ++i) {
        rte_mempool* const pool = ring.segment(i).pool;
        uint32_t wanted = 0;
        for (uint32_t other = 0; other < ring.segments; ++other)
            if (ring.segment(other).pool == pool) wanted += ring.mask + 1u;
        if (rte_mempool_avail_count(pool) < wanted) return not_enough_mbufs(ring, pool, wanted);
    }
    return not_enough_mbufs(ring, ring.pool, ring.descriptors());
}

/// Frees every buffer of the ring.
template <class Ring> void free_buffers(Ring& ring) {
    for (uint32_t i = 0; i < ring.descriptors(); ++i) {
        rte_mbuf* const mbuf = ring.mbufs[i];
        if (mbuf == nullptr) continue;
        ring.mbufs[i] = nullptr;
        rte_compiler_barrier(); // a process killed here loses it rather than freeing it twice
        rte_mbuf_raw_free(mbuf);
    }
}

/// After a queue reset: moves the ring's buffers to its first slots, as any slot may lack some.
/// Returns how many slots have all of theirs. A process that is killed here loses at most one
/// buffer; another one may start over.
template <class Ring> uint16_t gather_buffers(Ring& ring) {
    uint32_t complete = ring.mask + 1u;
    for (uint32_t column = 0; column < ring.segments; ++column) {
        uint32_t gathered = 0;
        for (uint32_t slot = 0; slot <= ring.mask; ++slot) {
            rte_mbuf*& from = ring.mbufs[(slot << ring.log_segments) + column];
            if (from == nullptr) continue;
            rte_mbuf* const mbuf = from;
            from = nullptr;
            rte_compiler_barrier();
            ring.mbufs[(gathered++ << ring.log_segments) + column] = mbuf;
        }
        complete = RTE_MIN(complete, gathered);
    }
    return static_cast<uint16_t>(complete);
}

/// Takes a packet of `bytes` out of the slot whose buffers start at `mbufs`: chains as many as it
/// fills and leaves the others. The head was described as if it held the whole packet.
template <class Ring> inline void take_chain(const Ring& ring, rte_mbuf** mbufs, uint32_t bytes) {
    rte_mbuf* head = mbufs[0];
    mbufs[0] = nullptr;
    const uint16_t first_room = ring.segment(0).room;
    if (bytes <= first_room) return;
    head->data_len = first_room;
    bytes -= first_room;
    rte_mbuf* last = head;
    for (unsigned i = 1; i < ring.segments && bytes > 0; ++i) {
        rte_mbuf* next = mbufs[i];
        mbufs[i] = nullptr;
        const RxSegment& segment = ring.segment(i);
        const uint32_t part = RTE_MIN(bytes, uint32_t{segment.room});
        rearm_mbuf(*next, ring.rearm);
        next->data_off = segment.offset;
        next->data_len = static_cast<uint16_t>(part);
        next->ol_flags = ring.base_flags;
        last->next = next;
        last = next;
        ++head->nb_segs;
        bytes -= part;
    }
}

} // namespace rawqp
