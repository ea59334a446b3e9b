// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/checksum.hpp"

namespace rawqp::verbsrings {
namespace {

/// A sum over sound data, its checksum included, is all ones.
constexpr uint16_t kSound = 0xffff;

constexpr uint32_t kMaxIpv4Header = 60;

enum class Verdict : uint8_t { unknown, good, bad };

/// The UDP checksum is optional over IPv4; 0 stands for none.
bool udp_without_checksum(const rte_mbuf& packet, uint32_t l4_offset) {
    rte_udp_hdr copy;
    const auto* udp =
        static_cast<const rte_udp_hdr*>(rte_pktmbuf_read(&packet, l4_offset, sizeof copy, &copy));
    return udp != nullptr && udp->dgram_cksum == 0;
}

Verdict verify_ipv4(const rte_mbuf& packet, const rte_net_hdr_lens& lens) {
    uint8_t copy[kMaxIpv4Header];
    const void* header = rte_pktmbuf_read(&packet, lens.l2_len, lens.l3_len, copy);
    if (header == nullptr) return Verdict::unknown;
    return rte_raw_cksum(header, lens.l3_len) == kSound ? Verdict::good : Verdict::bad;
}

Verdict verify_l4(const rte_mbuf& packet, uint32_t type, const rte_net_hdr_lens& lens) {
    const uint32_t l4 = type & RTE_PTYPE_L4_MASK;
    if (l4 != RTE_PTYPE_L4_TCP && l4 != RTE_PTYPE_L4_UDP) return Verdict::unknown;
    const bool ipv4 = RTE_ETH_IS_IPV4_HDR(type) != 0;
    // What the sender puts into extension headers has no bound, and the copy has one.
    if (!ipv4 && lens.l3_len != sizeof(rte_ipv6_hdr)) return Verdict::unknown;
    uint8_t copy[kMaxIpv4Header];
    const void* l3 = rte_pktmbuf_read(&packet, lens.l2_len, lens.l3_len, copy);
    if (l3 == nullptr) return Verdict::unknown;
    const auto l4_offset = static_cast<uint16_t>(lens.l2_len + lens.l3_len);
    const bool none = l4 == RTE_PTYPE_L4_UDP && udp_without_checksum(packet, l4_offset);
    int wrong;
    if (ipv4) {
        if (none) return Verdict::good;
        const auto* ip = static_cast<const rte_ipv4_hdr*>(l3);
        wrong = rte_ipv4_udptcp_cksum_mbuf_verify(&packet, ip, l4_offset);
    } else {
        if (none) return Verdict::unknown;
        const auto* ip = static_cast<const rte_ipv6_hdr*>(l3);
        wrong = rte_ipv6_udptcp_cksum_mbuf_verify(&packet, ip, l4_offset);
    }
    return wrong != 0 ? Verdict::bad : Verdict::good;
}

} // namespace

uint64_t verify_checksums(const rte_mbuf& packet, uint32_t type, const rte_net_hdr_lens& lens) {
    const bool ipv4 = RTE_ETH_IS_IPV4_HDR(type) != 0;
    if (!ipv4 && !RTE_ETH_IS_IPV6_HDR(type)) return 0;
    uint64_t flags = 0;
    const Verdict l3 = ipv4 ? verify_ipv4(packet, lens) : Verdict::good;
    if (ipv4 && l3 == Verdict::good) flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD;
    if (ipv4 && l3 == Verdict::bad) flags |= RTE_MBUF_F_RX_IP_CKSUM_BAD;

    // Behind a broken IP header only success means something.
    const Verdict l4 = verify_l4(packet, type, lens);
    if (l4 == Verdict::good) flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    if (l4 == Verdict::bad && l3 == Verdict::good) flags |= RTE_MBUF_F_RX_L4_CKSUM_BAD;
    return flags;
}

bool set_ipv4_checksum(rte_mbuf& packet) {
    if (packet.l3_len < sizeof(rte_ipv4_hdr) || packet.l2_len + packet.l3_len > packet.data_len)
        return false;
    auto* header = rte_pktmbuf_mtod_offset(&packet, rte_ipv4_hdr*, packet.l2_len);
    header->hdr_checksum = 0;
    header->hdr_checksum = static_cast<uint16_t>(~rte_raw_cksum(header, packet.l3_len));
    return true;
}

} // namespace rawqp::verbsrings
