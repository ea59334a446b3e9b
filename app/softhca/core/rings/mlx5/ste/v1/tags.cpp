// SPDX-License-Identifier: BSD-3-Clause
// Lookup types of format 1: the positions of a packet's fields in a tag.
#include "app/softhca/core/rings/mlx5/ste/tags.hpp"
#include "app/softhca/core/rings/mlx5/ste/v1/layout.hpp"

namespace softhca::core::mlx5_rings::v1 {
namespace {

using ste::Tag;

/// ste_eth_l2_src_v1, ste_eth_l2_dst_v1: except the address.
void put_l2(const Seen& seen, const std::array<uint8_t, 6>& mac, TagWriter& to) {
    constexpr Bits kFragment{3, 1}, kL3Type{0x0a, 2}, kL4Type{0x0c, 2}, kMac47To16{0x20, 32},
        kMac15To0{0x40, 16}, kEtherType{0x50, 16};
    constexpr VlanBits kFirst{{0x10, 4}, {0x0e, 2}, {0x14, 12}},
        kSecond{{0x70, 4}, {0x6e, 2}, {0x74, 12}};
    const LayerKey& layer = seen.layer;
    to.put(kFragment, layer.ip_fragment);
    to.put(kL3Type, l3_type(layer));
    to.put(kL4Type, l4_type(layer));
    to.put(kMac47To16, mac_47_16(mac));
    to.put(kMac15To0, mac_15_0(mac));
    to.put(kEtherType, layer.ether_type);
    put_first_vlan(to, kFirst, layer);
    put_second_vlan(to, kSecond, layer);
}
void l2_source(const Seen& seen, TagWriter& to) { put_l2(seen, seen.layer.src_mac, to); }
void l2_destination(const Seen& seen, TagWriter& to) { put_l2(seen, seen.layer.dst_mac, to); }

/// ste_eth_l2_src_dst_v1
void l2_both(const Seen& seen, TagWriter& to) {
    constexpr Bits kDestination47To16{0, 32}, kSource47To16{0x20, 32}, kDestination15To0{0x40, 16},
        kL3Type{0x5a, 2}, kSource15To0{0x70, 16};
    constexpr VlanBits kFirst{{0x60, 4}, {0x5e, 2}, {0x64, 12}};
    const LayerKey& layer = seen.layer;
    to.put(kDestination47To16, mac_47_16(layer.dst_mac));
    to.put(kSource47To16, mac_47_16(layer.src_mac));
    to.put(kDestination15To0, mac_15_0(layer.dst_mac));
    to.put(kL3Type, l3_type(layer));
    to.put(kSource15To0, mac_15_0(layer.src_mac));
    put_first_vlan(to, kFirst, layer);
}

/// ste_eth_l2_tnl_v1
void l2_tunnelled(const Seen& seen, TagWriter& to) {
    constexpr Bits kNetwork{0, 24}, kMac47To16{0x20, 32}, kMac15To0{0x40, 16}, kEtherType{0x50, 16},
        kFragment{0x63, 1}, kL3Type{0x6a, 2}, kL4Type{0x6c, 2};
    constexpr VlanBits kFirst{{0x70, 4}, {0x6e, 2}, {0x74, 12}};
    const LayerKey& layer = seen.layer;
    to.put(kNetwork, seen.tunnel().vxlan_vni);
    to.put(kMac47To16, mac_47_16(layer.dst_mac));
    to.put(kMac15To0, mac_15_0(layer.dst_mac));
    to.put(kEtherType, layer.ether_type);
    to.put(kFragment, layer.ip_fragment);
    to.put(kL3Type, l3_type(layer));
    to.put(kL4Type, l4_type(layer));
    put_first_vlan(to, kFirst, layer);
}

/// ste_eth_l3_ipv4_5_tuple_v1
void ipv4_5_tuple(const Seen& seen, TagWriter& to) {
    constexpr Bits kSource{0, 32}, kDestination{0x20, 32}, kSourcePort{0x40, 16},
        kDestinationPort{0x50, 16}, kFragment{0x66, 1}, kTcpFlags{0x67, 9}, kDscp{0x70, 6},
        kEcn{0x76, 2}, kProtocol{0x78, 8};
    const LayerKey& layer = seen.layer;
    to.put(kSource, ipv4(layer, layer.src_ip));
    to.put(kDestination, ipv4(layer, layer.dst_ip));
    to.put(kSourcePort, layer.src_port);
    to.put(kDestinationPort, layer.dst_port);
    to.put(kFragment, layer.ip_fragment);
    to.put(kTcpFlags, layer.tcp_flags);
    to.put(kDscp, layer.tos >> 2);
    to.put(kEcn, layer.tos & 3);
    to.put(kProtocol, layer.ip_proto);
}

/// ste_eth_l3_ipv4_misc_v1
void ipv4_misc(const Seen& seen, TagWriter& to) {
    constexpr Bits kVersion{0x40, 4}, kIhl{0x44, 4}, kTtl{0x48, 8};
    to.put(kVersion, seen.layer.ip_version);
    to.put(kIhl, seen.layer.ipv4_ihl);
    to.put(kTtl, seen.layer.ttl);
}

/// ste_eth_l4_v1
void l4(const Seen& seen, TagWriter& to) {
    constexpr Bits kVersion{0, 4}, kDscp{8, 6}, kEcn{0x0e, 2}, kHopLimit{0x10, 8},
        kProtocol{0x18, 8}, kSourcePort{0x20, 16}, kDestinationPort{0x30, 16}, kFlowLabel{0x4c, 20},
        kFragment{0x66, 1}, kTcpFlags{0x67, 9};
    const LayerKey& layer = seen.layer;
    to.put(kVersion, layer.ip_version);
    to.put(kDscp, layer.tos >> 2);
    to.put(kEcn, layer.tos & 3);
    to.put(kHopLimit, layer.ttl);
    to.put(kProtocol, layer.ip_proto);
    to.put(kSourcePort, layer.src_port);
    to.put(kDestinationPort, layer.dst_port);
    to.put(kFlowLabel, layer.flow_label);
    to.put(kFragment, layer.ip_fragment);
    to.put(kTcpFlags, layer.tcp_flags);
}

/// ste_eth_l4_misc_v1, and ste_icmp_v1 in ICMP packets.
void l4_misc(const Seen& seen, TagWriter& to) {
    constexpr Bits kAcknowledgement{0x20, 32}, kSequence{0x40, 32}, kIcmpData{0x20, 32},
        kIcmpType{0x40, 8}, kIcmpCode{0x48, 8};
    to.put(kAcknowledgement, seen.layer.tcp_ack);
    to.put(kSequence, seen.layer.tcp_sequence);
    if (seen.inner) return; // the device's keys have no ICMP fields of a tunnel's payload
    const TunnelKey& key = seen.tunnel();
    to.put(kIcmpData, key.icmp_data | key.icmpv6_data);
    to.put(kIcmpType, key.icmp_type | key.icmpv6_type);
    to.put(kIcmpCode, key.icmp_code | key.icmpv6_code);
}

/// ste_mpls_v1
void mpls(const Seen& seen, TagWriter& to) {
    to.put({0x20, 32}, seen.inner ? seen.tunnel().inner_mpls : seen.tunnel().mpls);
}

/// ste_flex_parser_tnl_*, ste_tunnel_header_v1: the words of a tunnel's header.
void any_tunnel_header(const Seen& seen, TagWriter& to) {
    raw_tunnel_header(seen, to);
    tunnel_header(seen, to);
}

/// Numbers of definers with a mask of bytes (0…) or of words (1…), for the outer and for the inner
/// headers. Source: dr_ste_v1.h, DR_STE_V1_LU_TYPE_*.
struct Lookup {
    uint16_t outer, inner;
    WriteTag write;
};
constexpr uint16_t kNone = 0xffff;
constexpr Lookup kLookups[] = {
    {kNone, 0x002, l2_tunnelled},
    {0x003, 0x004, l2_destination},
    {0x005, 0x006, l2_source},
    {0x007, 0x008, ipv4_5_tuple},
    {0x009, 0x00a, l4},
    {0x00b, 0x00c, l2_both},
    {0x00d, 0x00f, ipv4_misc}, // 0x00f is also used by entries that match nothing
    {0x00e, kNone, any_tunnel_header},
    {0x104, kNone, source_queue},
    {0x107, 0x108, destination_ip},
    {0x109, 0x10a, source_ip},
    {0x10b, 0x10c, mpls},
    {0x10d, kNone, gre},
    {0x10e, kNone, general_purpose},
    {0x10f, kNone, registers_0},
    {0x110, kNone, registers_1},
    {0x111, kNone, flex_parsers_0},
    {0x112, kNone, flex_parsers_1},
    {0x113, 0x114, l4_misc},
};

/// Likewise by number.
constexpr auto kByNumber = [] {
    std::array<KnownLookup, 0x200> known{};
    for (const Lookup& lookup : kLookups) {
        if (lookup.outer != kNone) known[lookup.outer] = {lookup.write, false};
        if (lookup.inner != kNone) known[lookup.inner] = {lookup.write, true};
    }
    return known;
}();

} // namespace

bool look_up(uint16_t lookup, const Packet& packet, Tag& tag) {
    return lookup < kByNumber.size() && write_tag(kByNumber[lookup], packet, tag);
}

} // namespace softhca::core::mlx5_rings::v1
