// SPDX-License-Identifier: BSD-3-Clause
// How rules may change packets: the vocabulary of the fronts, without device objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace softhca::core {

/// The fields that header edits read and write; at most 32 bits, in the outer headers.
enum class EditField : uint8_t {
    src_mac_high, ///< the first 32 bits …
    src_mac_low,  ///< … and the other 16
    ether_type,
    dst_mac_high,
    dst_mac_low,
    vlan_type, ///< of the first tag, likewise the two after it
    vlan_tci,
    vlan_id, ///< the low bits of that
    ip_dscp,
    ip_ecn,
    ipv4_ttl,
    ipv6_hop_limit,
    src_ipv4,
    dst_ipv4,
    src_ipv6, ///< the first of four
    dst_ipv6 = src_ipv6 + 4,
    tcp_flags = dst_ipv6 + 4,
    tcp_src_port,
    tcp_dst_port,
    tcp_sequence,
    tcp_ack,
    udp_src_port,
    udp_dst_port,
    reg_a,
    reg_b, ///< reported in the CQE
    reg_c, ///< the first of eight
};

/// Some bits of a field, counted from its lowest one; not more than it has.
struct FieldPart {
    EditField field{};
    uint8_t offset = 0;
    uint8_t length = 32;
};

struct HeaderEdit {
    enum class Kind : uint8_t { set, add, copy };
    Kind kind{};
    FieldPart to;
    FieldPart from;     ///< of copy
    uint32_t value = 0; ///< of set and add
};

enum class ReformatKind : uint8_t {
    l2_to_l2_tunnel, ///< headers go in front of the frame; their lengths are filled in
    l2_to_l3_tunnel, ///< headers replace the frame's L2 header
    l3_tunnel_to_l2, ///< an L2 header replaces the tunnel's headers
};

struct VlanTag {
    uint16_t type = 0, tci = 0;
    bool operator==(const VlanTag&) const = default;
};

} // namespace softhca::core
