// SPDX-License-Identifier: BSD-3-Clause
// The send burst on mapped mlx5 rings: one template.
#pragma once

#include "common/lines.hpp"
#include "drivers/net/rawqp/rings/ahead.hpp"
#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/mlx5/device.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_mpw.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_schedule.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_wqe.hpp"

#include <utility>

namespace rawqp::mlx5rings {
// Each source compiles its own: the number of variants in a source decides what compilers inline.
namespace {

/// Notes the packet's segments as in flight.
template <TxOptions O> inline void keep(MlxTxRing& ring, TxBatch& batch, rte_mbuf* packet) {
    uint16_t head = ring.mbufs.head();
    if constexpr (O.multi_segment) {
        for (rte_mbuf* segment = packet; segment != nullptr; segment = segment->next)
            ring.mbufs.slot(head++) = segment;
    } else {
        ring.mbufs.slot(head++) = packet;
    }
    batch.room -= static_cast<uint16_t>(head - ring.mbufs.head());
    ring.mbufs.set_head(head);
    batch.bytes += packet->pkt_len;
    ++batch.packets;
    if constexpr (!O.fast_free) {
        if (!is_plain(*packet, batch.pool)) batch.needs_slow_free = 1;
    }
}

/// Whether the burst is one WQE, in one piece.
inline bool stands_alone(const MlxTxRing& ring, const TxBatch& batch, uint16_t start) {
    const bool wraps = (start & ring.wqebb_mask) > ((ring.producer - 1u) & ring.wqebb_mask);
    return reinterpret_cast<uint8_t*>(batch.last) == ring.wqebb(start) && !wraps;
}

/// Prefetches for writing the WQEBBs after the last one that was posted, as many as the `posted`
/// bytes of this burst took: the next one will probably take as many. The device read them a
/// revolution of the ring ago, so stores to them would have to wait.
inline void claim_next(const MlxTxRing& ring, uint32_t posted) {
    claim_lines(reinterpret_cast<const std::byte*>(ring.wqebb(ring.producer)),
                RTE_MIN(posted, ahead::kWqebbs * mlx5::kWqebb)); // beyond the ring's end to no use
}

/// After the last WQE of a burst, whose first is at WQEBB `start` and whose mbufs begin at `first`:
/// requests its completion if that is due, and rings the doorbell.
///
/// Always inlined, as the TxBatch would otherwise have to be stored: doorbell fences wait for each
/// store, which is most of a small burst's cost.
[[gnu::always_inline]] inline void finish_burst(MlxTxRing& ring, const TxBatch& batch,
                                                uint16_t start, uint16_t first) {
    const uint16_t producer = ring.producer;
    count_up(ring.counters.packets, batch.packets);
    count_up(ring.counters.bytes, batch.bytes);
    rte_mempool* pool = batch.needs_slow_free == 0 ? batch.pool : nullptr;
    if (first != ring.asked && pool != batch.unasked_pool) pool = nullptr;
    if (static_cast<uint16_t>(ring.mbufs.head() - ring.asked) >= ring.ask_every)
        ring.ask_by(batch.last, pool);
    else
        ring.unasked_pool = pool;
    wqes_before_record();
    store_record(*ring.doorbell, producer);
    const uint32_t posted = static_cast<uint16_t>(producer - start) * mlx5::kWqebb;
    if (posted <= ring.uar.blue_flame && stands_alone(ring, batch, start)) [[unlikely]]
        ring.uar.write(batch.last, posted);
    else
        ring.uar.ring(batch.last);
    claim_next(ring, posted);
}

/// Sends the packet in a WQE of its own, or drops and counts it. False: there is no room for it.
template <TxOptions O> inline bool send_one(MlxTxRing& ring, TxBatch& batch, rte_mbuf* packet) {
    // A packet of more than max_segments is dropped rather than waited for.
    const uint16_t needed = O.multi_segment ? RTE_MIN(packet->nb_segs, ring.max_segments) : 1;
    if (needed > batch.room) return false;
    const Inlined what = inlined<O>(ring, *packet);
    if (O.long_wqes() && !what.impossible &&
        (what.head_segments() + needed + 3) / 4 > ring.free_wqebbs())
        return false;
    mlx5::WqeCtrlSeg* wqe = write_wqe<O>(ring, *packet, what);
    if (wqe == nullptr) [[unlikely]] {
        drop(ring, packet);
        return true;
    }
    batch.last = wqe;
    keep<O>(ring, batch, packet);
    return true;
}

/// The same, at the packet's time: preceded by a WQE that waits for it.
template <TxOptions O>
inline bool send_at_its_time(MlxTxRing& ring, TxBatch& batch, rte_mbuf* packet) {
    const uint16_t needed = RTE_MIN(packet->nb_segs, ring.max_segments);
    const Inlined what = inlined<O>(ring, *packet);
    const uint32_t wqebbs = what.impossible ? 1 : (what.head_segments() + needed + 3) / 4;
    if (needed > batch.room || 1 + wqebbs > ring.free_wqebbs()) return false;
    const uint16_t before = ring.producer;
    write_wait(ring, *packet);
    const uint16_t waiting = ring.producer;
    (void)send_one<O>(ring, batch, packet);               // there is room for it
    if (ring.producer == waiting) ring.producer = before; // it was dropped: nothing is to wait
    return true;
}

template <TxOptions O> uint16_t send(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<MlxTxRing*>(queue);
    if (!reap(ring)) [[unlikely]]
        return 0;
    if (count == 0) {
        ask(ring);
        return 0;
    }
    if (ring.mrs.sync()) [[unlikely]]
        ring.pools.clear();
    const uint16_t start = ring.producer, first = ring.mbufs.head();
    TxBatch batch;
    // If this process is killed before it knows what it has sent, each mbuf will be looked at.
    if (first != ring.asked) batch.unasked_pool = std::exchange(ring.unasked_pool, nullptr);
    batch.pool = packets[0]->pool;
    batch.room = RTE_MIN(uint32_t{ring.mbufs.room()}, ring.free_wqebbs());
    if constexpr (O.multi_packet && O.inlining == Inlining::none)
        batch.lkey_be = ring.pools.find(batch.pool, ring.mrs);
    uint16_t taken = 0;
    while (taken < count) {
        if constexpr (O.scheduled) {
            if (is_scheduled(ring, *packets[taken])) {
                if (!send_at_its_time<O>(ring, batch, packets[taken])) break;
                ++taken;
                continue;
            }
        }
        if constexpr (O.multi_packet) {
            const auto wanted = RTE_MIN(uint32_t{count} - taken, batch.room);
            if (wanted == 0) break;
            if (const uint32_t sent = write_session<O>(ring, batch, packets + taken, wanted)) {
                batch.room -= sent;
                taken = static_cast<uint16_t>(taken + sent);
                continue;
            }
        }
        if (!send_one<O>(ring, batch, packets[taken])) break;
        ++taken;
    }
    if constexpr (!O.fast_free) ring.was_mixed = batch.needs_slow_free != 0;
    if (batch.last != nullptr)
        finish_burst(ring, batch, start, first);
    else
        ring.unasked_pool = batch.unasked_pool;
    return taken;
}

template <TxOptions O>
constexpr BurstName kName = burst_name(O.avx2 ? "mlx5 AVX2" : "mlx5 scalar",
                                       {{O.multi_packet, "multi-packet"},
                                        {O.multi_segment, "multi-segment"},
                                        {O.offloads, "offloads"},
                                        {O.long_headers, "TSO"},
                                        {O.inlining == Inlining::header, "inline header"},
                                        {O.inlining == Inlining::packet, "inline"},
                                        {O.fast_free, "fast free"},
                                        {O.metadata, "metadata"},
                                        {O.scheduled, "send on timestamp"}});

template <TxOptions O> constexpr Burst<eth_tx_burst_t> kBurst{send<O>, kName<O>.data()};

constexpr TxOptions with(TxOptions options, Inlining inlining, bool multi_packet) {
    options.inlining = inlining;
    options.multi_packet = multi_packet;
    return options;
}
/// The burst of `O`, but with this inlining, and multi-packet WQEs where possible.
template <TxOptions O> Burst<eth_tx_burst_t> burst_with(Inlining inlining, bool multi_packet) {
    switch (inlining) {
    case Inlining::header: return kBurst<with(O, Inlining::header, false)>;
    case Inlining::packet:
        return multi_packet ? kBurst<with(O, Inlining::packet, true)>
                            : kBurst<with(O, Inlining::packet, false)>;
    case Inlining::none: break;
    }
    return multi_packet ? kBurst<with(O, Inlining::none, true)>
                        : kBurst<with(O, Inlining::none, false)>;
}

} // namespace

/// The bursts that look for metadata, with all other per-packet offloads.
[[nodiscard]] Burst<eth_tx_burst_t> tx_metadata_burst(Inlining inlining, bool multi_packet);
/// Those that also look for times to send at.
[[nodiscard]] Burst<eth_tx_burst_t> tx_scheduled_burst(Inlining inlining, bool multi_packet);
/// Those that write the data segments of multi-packet WQEs with AVX2, without inlining.
[[nodiscard]] Burst<eth_tx_burst_t> tx_avx2_burst(const TxOptions& options);

} // namespace rawqp::mlx5rings
