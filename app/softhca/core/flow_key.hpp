// SPDX-License-Identifier: BSD-3-Clause
// What steering may match on: the header fields of one packet, at fixed places.
#pragma once

#include "common/net/endian.hpp"

#include <array>
#include <cstdint>
#include <type_traits>

namespace softhca::core {

/// Extracted once per packet; rules hold a value and a mask of the same shape. Padding-free, so it
/// can be compared, masked and hashed as 64-bit words. Absent headers leave zeros.
struct FlowKey {
    std::array<uint8_t, 6> dst_mac{};
    std::array<uint8_t, 6> src_mac{};
    net::be16 ether_type{0}; ///< after all VLAN tags
    net::be16 vlan_tci{0};   ///< of the first tag
    uint8_t cvlan = 0;       ///< 1: first tag is 802.1Q
    uint8_t svlan = 0;       ///< 1: first tag is 802.1ad
    uint8_t ip_version = 0;  ///< 4, 6 or 0
    uint8_t ip_proto = 0;    ///< IPv6: after the extension headers
    uint8_t tos = 0;         ///< IPv4 TOS / IPv6 traffic class
    uint8_t ttl = 0;         ///< IPv4 TTL / IPv6 hop limit
    uint8_t ip_fragment = 0; ///< 1: any fragment
    uint8_t tcp_flags = 0;
    uint8_t l4 = 0; ///< 6 TCP, 17 UDP: the L4 header is really there (not a later fragment)
    uint8_t ipv4_ihl = 0;
    net::be16 src_port{0};
    net::be16 dst_port{0};
    net::be16 reserved{0};
    net::be32 flow_label{0};
    net::be32 vxlan_vni{0};           ///< 24 bits; after UDP port 4789
    std::array<uint8_t, 16> src_ip{}; ///< IPv4 in the last four bytes
    std::array<uint8_t, 16> dst_ip{};
};
static_assert(sizeof(FlowKey) == 72 && sizeof(FlowKey) % 8 == 0);
static_assert(std::has_unique_object_representations_v<FlowKey>);

} // namespace softhca::core
