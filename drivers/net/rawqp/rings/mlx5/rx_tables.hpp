// SPDX-License-Identifier: BSD-3-Clause
// What the CQE's packet description means in mbuf terms, as tables without branches.
#pragma once

#include "common/mlx5/formats.hpp"
#include "drivers/net/rawqp/rings/rx_checksum.hpp"

#include <array>

namespace rawqp::mlx5rings {

/// Fields of Cqe::l4_l3_type.
constexpr mlx5::CqeL3 l3_of(uint8_t l4_l3_type) {
    return static_cast<mlx5::CqeL3>((l4_l3_type >> 2) & 0x3);
}
constexpr mlx5::CqeL4 l4_of(uint8_t l4_l3_type) {
    return static_cast<mlx5::CqeL4>((l4_l3_type >> 4) & 0x7);
}
constexpr bool is_tcp(mlx5::CqeL4 l4) {
    return l4 == mlx5::CqeL4::tcp_no_ack || l4 == mlx5::CqeL4::tcp_ack ||
           l4 == mlx5::CqeL4::tcp_ack_data;
}

constexpr uint32_t packet_type(uint8_t l4_l3_type) {
    uint32_t type = RTE_PTYPE_L2_ETHER;
    switch (l3_of(l4_l3_type)) {
    case mlx5::CqeL3::ipv4: type |= RTE_PTYPE_L3_IPV4_EXT_UNKNOWN; break;
    case mlx5::CqeL3::ipv6: type |= RTE_PTYPE_L3_IPV6_EXT_UNKNOWN; break;
    default: return type;
    }
    if (l4_l3_type & mlx5::kIpFragment) return type | RTE_PTYPE_L4_FRAG;
    const mlx5::CqeL4 l4 = l4_of(l4_l3_type);
    if (is_tcp(l4)) return type | RTE_PTYPE_L4_TCP;
    if (l4 == mlx5::CqeL4::udp) return type | RTE_PTYPE_L4_UDP;
    return type | RTE_PTYPE_L4_NONFRAG;
}

/// Of a packet whose Cqe::packet_info says kTunnelled: `l4_l3_type` is about the inside. Which kind
/// of tunnel it is the device does not tell.
constexpr uint32_t tunnel_type(uint8_t packet_info, uint8_t l4_l3_type) {
    uint32_t type =
        RTE_PTYPE_L2_ETHER | (packet_info & mlx5::kOuterIpv6 ? RTE_PTYPE_L3_IPV6_EXT_UNKNOWN
                                                             : RTE_PTYPE_L3_IPV4_EXT_UNKNOWN);
    switch (l3_of(l4_l3_type)) {
    case mlx5::CqeL3::ipv4: type |= RTE_PTYPE_INNER_L3_IPV4_EXT_UNKNOWN; break;
    case mlx5::CqeL3::ipv6: type |= RTE_PTYPE_INNER_L3_IPV6_EXT_UNKNOWN; break;
    default: return type;
    }
    if (l4_l3_type & mlx5::kIpFragment) return type | RTE_PTYPE_INNER_L4_FRAG;
    const mlx5::CqeL4 l4 = l4_of(l4_l3_type);
    if (is_tcp(l4)) return type | RTE_PTYPE_INNER_L4_TCP;
    if (l4 == mlx5::CqeL4::udp) return type | RTE_PTYPE_INNER_L4_UDP;
    return type | RTE_PTYPE_INNER_L4_NONFRAG;
}

/// Checksum and VLAN flags. The device tells which checksums are right; those of IPv4 headers, TCP
/// and UDP that it does not vouch for are unproven. A fragment's L4 checksum cannot be known.
constexpr uint64_t receive_flags(uint8_t hds_ip_ext, uint8_t l4_l3_type) {
    uint64_t flags = 0;
    if (l4_l3_type & mlx5::kVlanStripped) flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;

    const mlx5::CqeL3 l3 = l3_of(l4_l3_type);
    const mlx5::CqeL4 l4 = l4_of(l4_l3_type);
    const bool l3_ok = (hds_ip_ext & mlx5::kL3Ok) != 0;
    const bool l4_ok = (hds_ip_ext & mlx5::kL4Ok) != 0;
    if (l3 == mlx5::CqeL3::ipv4)
        flags |= l3_ok ? RTE_MBUF_F_RX_IP_CKSUM_GOOD : RTE_MBUF_F_RX_IP_CKSUM_BAD;

    const bool ip = l3 == mlx5::CqeL3::ipv4 || l3 == mlx5::CqeL3::ipv6;
    const bool has_l4 = ip && (is_tcp(l4) || l4 == mlx5::CqeL4::udp);
    if (has_l4 && !(l4_l3_type & mlx5::kIpFragment))
        flags |= l4_ok ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD;
    return flags;
}

/// packet_type by l4_l3_type >> 2 (its low two bits do not matter).
inline constexpr auto kPacketTypes = [] {
    std::array<uint32_t, 64> table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = packet_type(static_cast<uint8_t>(i << 2));
    return table;
}();

constexpr unsigned tunnel_index(uint8_t packet_info, uint8_t l4_l3_type) {
    static_assert(mlx5::kOuterIpv6 == 1u << 1);
    return static_cast<unsigned>(packet_info & mlx5::kOuterIpv6) << 5 | l4_l3_type >> 2;
}

/// tunnel_type by tunnel_index.
inline constexpr auto kTunnelTypes = [] {
    std::array<uint32_t, 128> table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = tunnel_type(static_cast<uint8_t>(i >> 5 & mlx5::kOuterIpv6),
                               static_cast<uint8_t>(i << 2));
    return table;
}();

constexpr unsigned flags_index(uint8_t hds_ip_ext, uint8_t l4_l3_type) {
    return static_cast<unsigned>(hds_ip_ext & (mlx5::kL3Ok | mlx5::kL4Ok)) << 7 | l4_l3_type;
}
static_assert((mlx5::kL3Ok | mlx5::kL4Ok) == 0x6);

/// receive_flags by flags_index. The flags in question are among the low 16 bits.
inline constexpr auto kReceiveFlags = [] {
    std::array<uint16_t, 1024> table{};
    for (unsigned ok = 0; ok < 4; ++ok) {
        for (unsigned type = 0; type < 256; ++type) {
            const auto hds = static_cast<uint8_t>(ok << 1);
            const auto l4_l3 = static_cast<uint8_t>(type);
            table[flags_index(hds, l4_l3)] = static_cast<uint16_t>(receive_flags(hds, l4_l3));
        }
    }
    return table;
}();

} // namespace rawqp::mlx5rings
