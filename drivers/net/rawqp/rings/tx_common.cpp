// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp {

Result<void> check_tx_spec(const TxSpec& spec) {
    const auto what = [&] {
        return fmt::format("port {} Tx queue {}", spec.port_id, spec.queue_id);
    };
    if (spec.descriptors < kMinDescriptors || spec.descriptors > kMaxDescriptors ||
        !rte_is_power_of_2(spec.descriptors))
        return fail(EINVAL,
                    "{}: {} descriptors asked for, {} to {} and a power of two are possible",
                    what(), spec.descriptors, kMinDescriptors, kMaxDescriptors);
    if (spec.max_segments == 0 || spec.max_segments > kMaxTxSegments)
        return fail(EINVAL, "{}: {} segments per packet asked for, 1 to {} are possible", what(),
                    spec.max_segments, kMaxTxSegments);
    if (spec.inline_bytes > kMaxInlineBytes)
        return fail(EINVAL, "{}: inlining of packets up to {} bytes asked for, {} are possible",
                    what(), spec.inline_bytes, kMaxInlineBytes);
    return {};
}
static_assert(kMaxTxSegments <= kMinDescriptors / 2);

namespace {

/// Calls `visit` with each packet from TxMbufs position `first` on.
template <class Visit> void for_each_packet(const TxMbufs& mbufs, uint16_t first, Visit visit) {
    uint16_t position = first;
    // Ends as well where a killed process had noted only part of its last packet.
    for (auto left = static_cast<uint16_t>(mbufs.head() - first); left > 0;) {
        const rte_mbuf& packet = *mbufs.at(position);
        visit(packet);
        const uint16_t segments = RTE_MIN(segments_of(packet), left);
        position = static_cast<uint16_t>(position + segments);
        left = static_cast<uint16_t>(left - segments);
    }
}

} // namespace

uint32_t count_packets(const TxMbufs& mbufs) {
    uint32_t packets = 0;
    for_each_packet(mbufs, mbufs.tail(), [&](const rte_mbuf&) { ++packets; });
    return packets;
}

uint16_t after_packets(const TxRing& ring, const TxMbufs& mbufs, uint32_t packets, uint16_t end) {
    uint16_t position = mbufs.tail();
    for (; packets > 0 && position != end; --packets) {
        const uint16_t segments = ring.max_segments > 1 ? segments_of(*mbufs.at(position)) : 1;
        const auto left = static_cast<uint16_t>(end - position);
        position = static_cast<uint16_t>(position + RTE_MIN(segments, left));
    }
    return position;
}

uint32_t count_lost(TxRing& ring, const TxMbufs& mbufs, uint16_t first) {
    uint32_t lost = 0;
    for_each_packet(mbufs, first, [&](const rte_mbuf& packet) {
        count_down(ring.counters.packets);
        count_down(ring.counters.bytes, packet.pkt_len);
        count_up(ring.counters.errors);
        ++lost;
    });
    return lost;
}

uint64_t no_inline_flag() {
    // The name by which applications of net_mlx5 register it.
    const int bit = rte_mbuf_dynflag_lookup("mlx5_fine_granularity_inline", nullptr);
    return bit >= 0 ? RTE_BIT64(bit) : 0;
}

void drop(TxRing& ring, rte_mbuf* packet) {
    rte_pktmbuf_free(packet);
    count_up(ring.counters.errors);
}

} // namespace rawqp
