// SPDX-License-Identifier: BSD-3-Clause
// The send burst on mapped mlx5 rings. One template; the options are chosen once per port.
#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/mlx5/device.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_mpw.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_wqe.hpp"

#include <utility>

namespace rawqp::mlx5rings {
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

/// After the last WQE of a burst, whose first is at WQEBB `start`: asks for its completion and
/// rings the doorbell.
///
/// Inlined, as what is in a TxBatch would have to be stored otherwise: doorbell fences wait for
/// each store, and a small burst's cost is mostly that.
[[gnu::always_inline]] inline void finish_burst(MlxTxRing& ring, const TxBatch& batch,
                                                uint16_t start) {
    const uint16_t producer = ring.producer;
    ring.counters.packets += batch.packets;
    ring.counters.bytes += batch.bytes;
    batch.last->fm_ce_se = mlx5::kCqUpdate;
    ring.mark(ring.marks_head++) = {.pool = batch.needs_slow_free == 0 ? batch.pool : nullptr,
                                    .segment = ring.mbufs.head(),
                                    .wqebb = producer};
    wqes_before_record();
    store_record(*ring.doorbell, producer);
    const uint32_t posted = static_cast<uint16_t>(producer - start) * mlx5::kWqebb;
    if (posted <= ring.uar.blue_flame && stands_alone(ring, batch, start)) [[unlikely]]
        ring.uar.write(batch.last, posted);
    else
        ring.uar.ring(batch.last);
}

/// Sends the packet in a WQE of its own, or drops and counts it. False: there is no room for it.
template <TxOptions O> inline bool send_one(MlxTxRing& ring, TxBatch& batch, rte_mbuf* packet) {
    // A packet of more than max_segments is dropped rather than waited for.
    const uint16_t needed = O.multi_segment ? RTE_MIN(packet->nb_segs, ring.max_segments) : 1;
    if (needed > ring.mbufs.room()) return false;
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

/// What small bursts find completed is freed together, kFreeBatch packets at a time or when there
/// is no room for all of the burst. Where a packet may take several descriptors or WQEBBs its
/// number does not tell.
template <TxOptions O> inline bool free_is_due(const MlxTxRing& ring, uint16_t count) {
    constexpr uint16_t kFreeBatch = 32;
    return O.multi_segment || O.long_wqes() || count > ring.mbufs.room() ||
           static_cast<uint16_t>(ring.done - ring.mbufs.tail()) >= kFreeBatch;
}

template <TxOptions O> uint16_t send(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<MlxTxRing*>(queue);
    if (!take_completions(ring, UINT32_MAX)) [[unlikely]]
        return 0;
    if (count == 0 || free_is_due<O>(ring, count)) free_done(ring);
    if (count == 0) return 0;
    if (ring.mrs.sync()) [[unlikely]]
        ring.pools.clear();
    const uint16_t start = ring.producer;
    TxBatch batch;
    batch.pool = packets[0]->pool;
    if constexpr (O.multi_packet && O.inlining == Inlining::none)
        batch.lkey_be = ring.pools.find(batch.pool, ring.mrs);
    uint16_t taken = 0;
    while (taken < count) {
        if constexpr (O.multi_packet) {
            const auto wanted = RTE_MIN(static_cast<uint16_t>(count - taken), ring.mbufs.room());
            if (wanted == 0) break;
            if (const uint32_t sent = write_session<O>(ring, batch, packets + taken, wanted)) {
                taken = static_cast<uint16_t>(taken + sent);
                continue;
            }
        }
        if (!send_one<O>(ring, batch, packets[taken])) break;
        ++taken;
    }
    if (batch.last != nullptr) finish_burst(ring, batch, start);
    return taken;
}

/// The table: each field of TxOptions is a digit of the index.
constexpr size_t kVariants = 2 * 2 * 2 * 3 * 2 * 2 * 2 * 2;

constexpr TxOptions tx_options(size_t index) {
    const auto digit = [&index](size_t base) {
        const size_t value = index % base;
        index /= base;
        return value;
    };
    TxOptions options{};
    options.multi_segment = digit(2) != 0;
    options.offloads = digit(2) != 0;
    options.long_headers = digit(2) != 0;
    options.inlining = static_cast<Inlining>(digit(3));
    options.multi_packet = digit(2) != 0;
    options.avx2 = digit(2) != 0;
    options.fast_free = digit(2) != 0;
    options.metadata = digit(2) != 0;
    // What excludes or includes each other: such entries are of one variant.
    if (options.long_headers || options.metadata) options.offloads = true;
    if (options.metadata) options.avx2 = options.fast_free = false;
    if (options.inlining == Inlining::header) options.multi_packet = false;
    if (!options.multi_packet || options.inlining != Inlining::none) options.avx2 = false;
    if (options.multi_segment) options.fast_free = false;
#if !defined(__x86_64__)
    options.avx2 = false;
#endif
    return options;
}

constexpr size_t index_of(const TxOptions& options) {
    size_t index = options.metadata;
    index = index * 2 + options.fast_free;
    index = index * 2 + options.avx2;
    index = index * 2 + options.multi_packet;
    index = index * 3 + static_cast<size_t>(options.inlining);
    index = index * 2 + options.long_headers;
    index = index * 2 + options.offloads;
    return index * 2 + options.multi_segment;
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
                                        {O.metadata, "metadata"}});

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    // With the types spelled out: clang deduces them of 256 elements at most.
    return std::array<Burst<eth_tx_burst_t>, sizeof...(I)>{
        {{send<tx_options(I)>, kName<tx_options(I)>.data()}...}};
}
(std::make_index_sequence<kVariants>());

bool avx2_allowed([[maybe_unused]] const TxSpec& spec) {
#if defined(__x86_64__)
    // Virtual machines trap the instruction that tells: it is asked once.
    static const bool there = rte_cpu_get_flag_enabled(RTE_CPUFLAG_AVX2) > 0;
    return spec.active_simd_bits >= 256 && there;
#else
    return false;
#endif
}

/// What may be asked for packet by packet.
constexpr uint64_t kPacketOffloads =
    RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM |
    RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_VLAN_INSERT | kLongHeaders;

} // namespace

Burst<eth_tx_burst_t> tx_burst(const TxSpec& wanted) {
    TxSpec spec = wanted;
    tx_settle(spec);
    TxOptions options{};
    options.multi_segment = (spec.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
    options.offloads = (spec.offloads & kPacketOffloads) != 0;
    options.long_headers = (spec.offloads & kLongHeaders) != 0;
    const uint16_t min_inline = min_inline_bytes(spec);
    if (min_inline != 0) options.inlining = Inlining::header;
    if (spec.inline_bytes != 0 || min_inline > kInlineHeader) options.inlining = Inlining::packet;
    options.multi_packet = spec.multi_packet && min_inline == 0;
    options.avx2 = avx2_allowed(spec);
    options.fast_free = whole_packets_of_one_pool(spec.offloads);
    options.metadata = spec.metadata;
    return kBursts[index_of(options)];
}

} // namespace rawqp::mlx5rings
