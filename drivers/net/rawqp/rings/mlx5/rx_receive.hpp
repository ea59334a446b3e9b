// SPDX-License-Identifier: BSD-3-Clause
// The receive burst of cyclic queues: runs of plain CQEs, in vector steps and one by one, and
// compressed blocks; at its end it replaces the missing buffers. Each instruction set compiles this
// header for itself: nothing here may be shared by the linker.
#pragma once

#include "common/lines.hpp"
#include "drivers/net/rawqp/rings/ahead.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_lro.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_refill.hpp"
#include "drivers/net/rawqp/rings/rx_fill.hpp"
// The instruction set of this object: see meson.build.
#if defined(RAWQP_VECTORS)
#include "drivers/net/rawqp/rings/mlx5/rx_vector.hpp"
#else
#include "drivers/net/rawqp/rings/mlx5/rx_scalar.hpp"
#endif

#include <algorithm>
#include <utility>

namespace rawqp::mlx5rings {
namespace {

/// The mbufs of slot `number` after those at `slots`.
template <RxOptions O>
inline rte_mbuf** nth_slot(const MlxRxRing& ring, rte_mbuf** slots, uint32_t number) {
    return &slots[O.scattered ? number << ring.log_segments : number];
}
/// The mbufs of the WQE that completes next, followed by those of the later ones, to the ring's
/// end.
template <RxOptions O> inline rte_mbuf** next_slots(const MlxRxRing& ring) {
    return nth_slot<O>(ring, ring.mbufs, ring.cq.rq_consumer & ring.mask);
}

/// Whether vector steps precede single packets: they have prefetched the CQEs of these.
template <RxOptions O> constexpr bool kSteps = kIsa != Isa::scalar && !O.scattered;

/// Takes the rest of a run of up to `run` packets, of which take_steps has taken the first `taken`:
/// one by one, until an entry is something else. Returns how many of the run are then taken. A
/// scattered ring moves on with each packet; any other has not moved yet.
template <RxOptions O>
inline uint32_t take_single(MlxRxRing& ring, const Cqe* cqes, uint8_t expected, rte_mbuf** packets,
                            uint32_t taken, uint32_t run, uint64_t& bytes) {
    rte_mbuf** const slots = next_slots<O>(ring);
    const mlx5::WqeDataSeg* const wqes = ring.next_wqes();
    [[maybe_unused]] const uint32_t before = taken;
    uint64_t sum = 0;
    uint64_t seen = 0; // the flags of all packets
    for (; taken < run; ++taken) {
        const Cqe& cqe = cqes[taken];
        if ((load_op_own(cqe) & Cq::kAllButSolicited) != expected) break;
        owner_before_content();
        rte_mbuf** const mbufs = nth_slot<O>(ring, slots, taken);
        packets[taken] = mbufs[0];
        claim_line(*nth_slot<O>(ring, mbufs, ahead::kMbufs));
        if constexpr (!kSteps<O>)
            __builtin_prefetch(&cqes[taken + ahead::kCqes]); // beyond the ring to no use
        if constexpr (!O.scattered) claim_wqes(&wqes[taken], 1);
        const uint32_t length = packet_bytes<O>(ring, cqe.byte_count);
        if constexpr (O.offloads)
            seen |= describe<O>(ring, cqe, *mbufs[0], length);
        else
            describe<O>(ring, cqe, *mbufs[0], length);
        if constexpr (O.lro)
            if (lro_segments(cqe) > 1) tell_lro(cqe, *mbufs[0]);
        if constexpr (O.scattered) { // a slot that was passed may keep some of its mbufs
            ring.cq.take(1);
            take_chain(ring, mbufs, length);
        }
        sum += length;
    }
    if constexpr (O.offloads)
        if (seen & kUnproven) [[unlikely]]
            settle_checksums(packets + before, taken - before);
    bytes += sum;
    return taken;
}

/// Takes up to `run` packets of plain CQEs, until an entry is something else; none beyond the end
/// of ring or CQ. Returns how many; the ring has moved past them.
template <RxOptions O>
inline uint32_t take_run(MlxRxRing& ring, rte_mbuf** packets, uint32_t run, uint64_t& bytes) {
    const uint8_t expected = ring.cq.expected(CqeOpcode::resp_send, ring.cq.consumer);
    const Cqe* const cqes = &ring.cq.at(ring.cq.consumer);
    uint32_t taken = take_steps<O>(ring, cqes, expected, packets, run, bytes);
    taken = take_single<O>(ring, cqes, expected, packets, taken, run, bytes);
    if constexpr (!O.scattered) ring.cq.take(taken);
    return taken;
}

/// Takes `count` packets of mini CQEs.
template <RxOptions O>
inline void decompress_single(MlxRxRing& ring, const mlx5::MiniCqe* minis, rte_mbuf** mbufs,
                              rte_mbuf** packets, uint32_t count, uint64_t& bytes) {
    for (uint32_t i = 0; i < count; ++i) {
        rte_mbuf** const first = nth_slot<O>(ring, mbufs, i);
        packets[i] = *first;
        claim_line(*nth_slot<O>(ring, first, ahead::kMbufsInBlocks));
        const uint32_t length = packet_bytes<O>(ring, minis[i].byte_count);
        describe_from_block<O>(ring, minis[i].result, **first, length);
        if constexpr (O.scattered) { // as in take_single
            ring.cq.take_from_block(1, 1);
            take_chain(ring, first, length);
        }
        bytes += length;
    }
}

template <RxOptions O>
inline uint32_t take_from_block(MlxRxRing& ring, rte_mbuf** packets, uint32_t wanted,
                                uint64_t& bytes) {
    const uint32_t left = ring.cq.packets_left(); // none: a process was killed as it left the block
    const uint32_t next = ring.block.count - left;
    const uint32_t in_array = next % mlx5::kMiniCqes;
    const uint32_t count =
        std::min({wanted, left, mlx5::kMiniCqes - in_array, ring.slots_to_end()});
    const mlx5::MiniCqe* const minis = ring.cq.mini_array(ring.cq.consumer, next) + in_array;
    rte_mbuf** const mbufs = next_slots<O>(ring);
    if (count < mlx5::kMiniCqes || !decompress_array<O>(ring, minis, mbufs, packets, bytes))
        decompress_single<O>(ring, minis, mbufs, packets, count, bytes);
    if constexpr (O.offloads)
        if (ring.block.model().ol_flags & kUnproven) [[unlikely]]
            settle_checksums(packets, count);
    if constexpr (!O.scattered) ring.cq.take_from_block(count, count);
    if (ring.cq.is_leaving()) ring.block.leave(ring.cq);
    return count;
}

/// Gives buffers to the slots that lack some.
template <RxOptions O> inline void replace_buffers(MlxRxRing& ring) {
    if (O.scattered || !refill_from_cache(ring)) refill(ring);
}

template <RxOptions O> uint16_t receive(MlxRxRing& ring, rte_mbuf** packets, uint16_t wanted) {
    if constexpr (O.stamps == Stamps::real_time) ring.clock.refresh();
    const uint32_t count = std::min(wanted, ring.posted());
    uint64_t bytes = 0;
    uint32_t received = 0;
    bool error = false;
    while (received < count) {
        rte_mbuf** const next = packets + received;
        if (ring.cq.block_left > 0) {
            received += take_from_block<O>(ring, next, count - received, bytes);
            continue;
        }
        const uint32_t room = std::min(ring.cq.entries_to_end(), ring.slots_to_end());
        const uint32_t run = std::min(count - received, room);
        const uint32_t taken = take_run<O>(ring, next, run, bytes);
        received += taken;
        if (taken == run) continue;
        const CqeState state = ring.cq.state(ring.cq.consumer);
        if (state == CqeState::compressed && open_block<O>(ring)) continue;
        error = state == CqeState::error || state == CqeState::compressed;
        break;
    }
    if (received > 0) {
        count_up(ring.counters.packets, received);
        count_up(ring.counters.bytes, bytes);
    }
    if (error) [[unlikely]]
        recover(ring);
    if (ring.missing() >= ring.refill_batch) replace_buffers<O>(ring);
    return static_cast<uint16_t>(received);
}

template <RxOptions O> uint16_t receive_burst(void* queue, rte_mbuf** packets, uint16_t wanted) {
    constexpr RxOptions kAll = telling_all(O);
    auto& ring = *static_cast<MlxRxRing*>(queue);
    if (__atomic_load_n(&ring.tell_all, __ATOMIC_RELAXED)) [[unlikely]]
        return with_ptp<kAll>(ring, packets, receive<kAll>(ring, packets, wanted));
    return receive<O>(ring, packets, wanted);
}

} // namespace
} // namespace rawqp::mlx5rings
