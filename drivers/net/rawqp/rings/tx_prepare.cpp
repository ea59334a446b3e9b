// SPDX-License-Identifier: BSD-3-Clause
// rte_eth_tx_prepare: refuses what the queue would drop or the device would answer with an error.
// Packets need no changes: devices compute pseudo headers themselves.
#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp {
namespace {

/// Flags that describe a packet and request nothing.
constexpr uint64_t kDescription =
    RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_OUTER_IPV4 | RTE_MBUF_F_TX_OUTER_IPV6;

/// Mbuf flags, other than those of L4 and tunnels, that a queue with these offloads honours.
uint64_t honoured_flags(uint64_t offloads) {
    uint64_t flags = kDescription;
    const auto add = [&](uint64_t offload, uint64_t flag) {
        if ((offloads & offload) != 0) flags |= flag;
    };
    add(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM, RTE_MBUF_F_TX_IP_CKSUM);
    add(RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM, RTE_MBUF_F_TX_OUTER_IP_CKSUM);
    add(RTE_ETH_TX_OFFLOAD_VLAN_INSERT, RTE_MBUF_F_TX_VLAN);
    add(RTE_ETH_TX_OFFLOAD_QINQ_INSERT, RTE_MBUF_F_TX_QINQ | RTE_MBUF_F_TX_VLAN);
    add(RTE_ETH_TX_OFFLOAD_TCP_TSO, RTE_MBUF_F_TX_TCP_SEG);
    add(RTE_ETH_TX_OFFLOAD_VXLAN_TNL_TSO, RTE_MBUF_F_TX_TCP_SEG);
    return flags;
}

/// The L4 request is a two-bit number: the flags of SCTP (2) and UDP (3) share bits.
bool l4_enabled(uint64_t ol_flags, uint64_t offloads) {
    if ((ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) return true; // implies TCP's
    switch (ol_flags & RTE_MBUF_F_TX_L4_MASK) {
    case RTE_MBUF_F_TX_L4_NO_CKSUM: return true;
    case RTE_MBUF_F_TX_TCP_CKSUM: return (offloads & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) != 0;
    case RTE_MBUF_F_TX_UDP_CKSUM: return (offloads & RTE_ETH_TX_OFFLOAD_UDP_CKSUM) != 0;
    default: return false;
    }
}

/// Whether the device looks into the tunnel, where there is one and it has to.
bool tunnel_enabled(uint64_t ol_flags, uint64_t offloads) {
    constexpr uint64_t kRequests = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IP_CKSUM |
                                   RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_OUTER_IP_CKSUM;
    if ((ol_flags & kRequests) == 0) return true;
    const bool segment = (ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;
    const uint64_t outer = segment ? 0 : RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM;
    switch (ol_flags & RTE_MBUF_F_TX_TUNNEL_MASK) {
    case 0: return !segment || (offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0;
    case RTE_MBUF_F_TX_TUNNEL_VXLAN:
        return (offloads & (RTE_ETH_TX_OFFLOAD_VXLAN_TNL_TSO | outer)) != 0;
    default: return false;
    }
}

uint32_t shortest_ip(bool ipv6) { return ipv6 ? sizeof(rte_ipv6_hdr) : sizeof(rte_ipv4_hdr); }

/// Whether the header of a packet to be segmented has room for everything that it consists of. The
/// device repeats as many bytes as the lengths say.
bool has_all_headers(const rte_mbuf& packet) {
    const uint64_t flags = packet.ol_flags;
    uint32_t l2 = RTE_ETHER_HDR_LEN;
    if ((flags & RTE_MBUF_F_TX_TUNNEL_MASK) != 0) { // VXLAN, the only one that is offered
        if (packet.outer_l2_len < RTE_ETHER_HDR_LEN ||
            packet.outer_l3_len < shortest_ip((flags & RTE_MBUF_F_TX_OUTER_IPV6) != 0))
            return false;
        l2 += sizeof(rte_udp_hdr) + sizeof(rte_vxlan_hdr);
    }
    return packet.l2_len >= l2 && packet.l3_len >= shortest_ip((flags & RTE_MBUF_F_TX_IPV6) != 0) &&
           packet.l4_len >= sizeof(rte_tcp_hdr);
}

/// For a packet with RTE_MBUF_F_TX_TCP_SEG.
bool can_be_segmented(const TxRing& ring, const rte_mbuf& packet) {
    const uint32_t header = tso_header_bytes(packet);
    return has_all_headers(packet) && header <= kMaxTsoHeader && header < packet.pkt_len &&
           packet.pkt_len - header <= ring.max_tso && packet.tso_segsz != 0 &&
           packet.tso_segsz <= kMaxSegmentSize;
}

/// 0 or an errno value.
int refusal(const TxRing& ring, const rte_mbuf& packet, uint64_t refused) {
    const uint64_t flags = packet.ol_flags;
    if (packet.nb_segs == 0 || !sendable(packet, ring.max_segments)) return EINVAL;
    if ((flags & refused) != 0 || !l4_enabled(flags, ring.offloads) ||
        !tunnel_enabled(flags, ring.offloads))
        return ENOTSUP;
    if ((flags & RTE_MBUF_F_TX_TCP_SEG) != 0) {
        if (!can_be_segmented(ring, packet)) return EINVAL;
        if (const int error = rte_validate_tx_offload(&packet)) return -error;
    }
    return 0;
}

} // namespace

uint16_t tx_prepare(void* queue, rte_mbuf** packets, uint16_t count) {
    const auto& ring = *static_cast<const TxRing*>(queue);
    constexpr uint64_t kJudgedApart = RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_TUNNEL_MASK;
    uint64_t refused = RTE_MBUF_F_TX_OFFLOAD_MASK & ~kJudgedApart & ~honoured_flags(ring.offloads);
    if (ring.stamps) refused &= ~RTE_MBUF_F_TX_IEEE1588_TMST;
    for (uint16_t i = 0; i < count; ++i) {
        if (const int error = refusal(ring, *packets[i], refused)) {
            rte_errno = error;
            return i;
        }
    }
    return count;
}

} // namespace rawqp
