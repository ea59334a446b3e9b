// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/tx_common.hpp"

#include "drivers/net/rawqp/rings/rx_common.hpp"

#include <algorithm>

namespace rawqp {
namespace {

/// Mbuf flags, other than the L4 request, that a queue with these offloads honours.
uint64_t honoured_flags(uint64_t offloads) {
    uint64_t flags =
        RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6; // describe the packet, ask for nothing
    if (offloads & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) flags |= RTE_MBUF_F_TX_IP_CKSUM;
    if (offloads & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) flags |= RTE_MBUF_F_TX_VLAN;
    return flags;
}

/// The L4 request is a two-bit number: the flags of SCTP (2) and UDP (3) share bits.
bool l4_enabled(uint64_t ol_flags, uint64_t offloads) {
    switch (ol_flags & RTE_MBUF_F_TX_L4_MASK) {
    case RTE_MBUF_F_TX_L4_NO_CKSUM: return true;
    case RTE_MBUF_F_TX_TCP_CKSUM: return (offloads & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) != 0;
    case RTE_MBUF_F_TX_UDP_CKSUM: return (offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
    default: return false;
    }
}

} // namespace

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
    return {};
}
static_assert(kMaxTxSegments <= kMinDescriptors / 2);

uint32_t count_lost(TxRing& ring, TxMbufs& mbufs, uint16_t first) {
    uint32_t lost = 0;
    for (uint16_t position = first; position != mbufs.head();) {
        const rte_mbuf& packet = *mbufs.slot(position);
        --ring.counters.packets;
        ring.counters.bytes -= packet.pkt_len;
        ++ring.counters.errors;
        ++lost;
        position = static_cast<uint16_t>(position + packet.nb_segs);
    }
    return lost;
}

void PoolKeys::clear() { *this = {}; }

uint32_t PoolKeys::miss(rte_mempool* pool, MrCache& mrs) {
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [pool](const Entry& entry) { return entry.is(pool); });
    if (known != known_.end()) {
        last_ = *known;
    } else {
        const uint32_t size = pool->populated_size; // before the look: it may be growing
        last_ = {pool, size, common_lkey(pool, mrs)};
        known_[next_++ % known_.size()] = last_;
    }
    return last_.lkey_be;
}

void drop(TxRing& ring, rte_mbuf* packet) {
    rte_pktmbuf_free(packet);
    ++ring.counters.errors;
}

uint16_t tx_prepare(void* queue, rte_mbuf** packets, uint16_t count) {
    const auto& ring = *static_cast<const TxRing*>(queue);
    const uint64_t refused =
        RTE_MBUF_F_TX_OFFLOAD_MASK & ~RTE_MBUF_F_TX_L4_MASK & ~honoured_flags(ring.offloads);
    for (uint16_t i = 0; i < count; ++i) {
        const rte_mbuf& packet = *packets[i];
        if (!sendable(packet, ring.max_segments)) {
            rte_errno = EINVAL;
            return i;
        }
        if ((packet.ol_flags & refused) != 0 || !l4_enabled(packet.ol_flags, ring.offloads)) {
            rte_errno = ENOTSUP;
            return i;
        }
    }
    return count;
}

} // namespace rawqp
