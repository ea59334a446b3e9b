// SPDX-License-Identifier: BSD-3-Clause
// Lookup types of format 0: the positions of a packet's fields in a tag.
#include "app/softhca/core/rings/mlx5/ste/tags.hpp"
#include "app/softhca/core/rings/mlx5/ste/v0/layout.hpp"

namespace softhca::core::mlx5_rings::v0 {
namespace {

using ste::Tag;

/// ste_eth_l2_src, ste_eth_l2_dst: except the address.
void put_l2(const Seen& seen, const std::array<uint8_t, 6>& mac, TagWriter& to) {
    constexpr Bits kMac47To16{0, 32}, kMac15To0{0x20, 16}, kEtherType{0x30, 16}, kFragment{0x60, 1},
        kL3Type{0x64, 2};
    constexpr VlanBits kFirst{{0x4c, 4}, {0x50, 2}, {0x54, 12}},
        kSecond{{0x6c, 4}, {0x70, 2}, {0x74, 12}};
    const LayerKey& layer = seen.layer;
    to.put(kMac47To16, mac_47_16(mac));
    to.put(kMac15To0, mac_15_0(mac));
    to.put(kEtherType, layer.ether_type);
    to.put(kFragment, layer.ip_fragment);
    to.put(kL3Type, l3_type(layer));
    put_first_vlan(to, kFirst, layer);
    put_second_vlan(to, kSecond, layer);
}
void l2_source(const Seen& seen, TagWriter& to) { put_l2(seen, seen.layer.src_mac, to); }
void l2_destination(const Seen& seen, TagWriter& to) { put_l2(seen, seen.layer.dst_mac, to); }

/// ste_eth_l2_src_dst
void l2_both(const Seen& seen, TagWriter& to) {
    constexpr Bits kDestination47To16{0, 32}, kDestination15To0{0x20, 16}, kSource47To32{0x30, 16},
        kSource31To0{0x40, 32}, kL3Type{0x64, 2};
    constexpr VlanBits kFirst{{0x6c, 4}, {0x70, 2}, {0x74, 12}};
    const LayerKey& layer = seen.layer;
    to.put(kDestination47To16, mac_47_16(layer.dst_mac));
    to.put(kDestination15To0, mac_15_0(layer.dst_mac));
    to.put(kSource47To32, net::load_be<uint16_t>(layer.src_mac.data()));
    to.put(kSource31To0, net::load_be<uint32_t>(layer.src_mac.data() + 2));
    to.put(kL3Type, l3_type(layer));
    put_first_vlan(to, kFirst, layer);
}

/// ste_eth_l2_tnl
void l2_tunnelled(const Seen& seen, TagWriter& to) {
    constexpr Bits kMac47To16{0, 32}, kMac15To0{0x20, 16}, kEtherType{0x30, 16}, kNetwork{0x40, 24},
        kFragment{0x60, 1}, kL3Type{0x64, 2};
    constexpr VlanBits kFirst{{0x68, 4}, {0x70, 2}, {0x74, 12}};
    const LayerKey& layer = seen.layer;
    to.put(kMac47To16, mac_47_16(layer.dst_mac));
    to.put(kMac15To0, mac_15_0(layer.dst_mac));
    to.put(kEtherType, layer.ether_type);
    to.put(kNetwork, seen.tunnel().vxlan_vni);
    to.put(kFragment, layer.ip_fragment);
    to.put(kL3Type, l3_type(layer));
    put_first_vlan(to, kFirst, layer);
}

/// ste_eth_l3_ipv4_5_tuple
void ipv4_5_tuple(const Seen& seen, TagWriter& to) {
    constexpr Bits kSourcePort{0x40, 16}, kDestinationPort{0x50, 16}, kFragment{0x60, 1},
        kEcn{0x65, 2}, kTcpFlags{0x67, 9}, kDscp{0x70, 6}, kProtocol{0x78, 8};
    constexpr Bits kDestination{0, 32}, kSource{0x20, 32};
    const LayerKey& layer = seen.layer;
    to.put(kDestination, ipv4(layer, layer.dst_ip));
    to.put(kSource, ipv4(layer, layer.src_ip));
    to.put(kSourcePort, layer.src_port);
    to.put(kDestinationPort, layer.dst_port);
    to.put(kFragment, layer.ip_fragment);
    to.put(kEcn, layer.tos & 3);
    to.put(kTcpFlags, layer.tcp_flags);
    to.put(kDscp, layer.tos >> 2);
    to.put(kProtocol, layer.ip_proto);
}

/// ste_eth_l3_ipv4_misc
void ipv4_misc(const Seen& seen, TagWriter& to) {
    constexpr Bits kVersion{0, 4}, kIhl{4, 4}, kTtl{0x40, 8};
    to.put(kVersion, seen.layer.ip_version);
    to.put(kIhl, seen.layer.ipv4_ihl);
    to.put(kTtl, seen.layer.ttl);
}

/// ste_eth_l4
void l4(const Seen& seen, TagWriter& to) {
    constexpr Bits kFragment{0, 1}, kProtocol{8, 8}, kDestinationPort{0x10, 16}, kVersion{0x20, 4},
        kEcn{0x25, 2}, kTcpFlags{0x27, 9}, kSourcePort{0x30, 16}, kHopLimit{0x50, 8},
        kDscp{0x58, 6}, kFlowLabel{0x6c, 20};
    const LayerKey& layer = seen.layer;
    to.put(kFragment, layer.ip_fragment);
    to.put(kProtocol, layer.ip_proto);
    to.put(kDestinationPort, layer.dst_port);
    to.put(kVersion, layer.ip_version);
    to.put(kEcn, layer.tos & 3);
    to.put(kTcpFlags, layer.tcp_flags);
    to.put(kSourcePort, layer.src_port);
    to.put(kHopLimit, layer.ttl);
    to.put(kDscp, layer.tos >> 2);
    to.put(kFlowLabel, layer.flow_label);
}

/// ste_eth_l4_misc
void l4_misc(const Seen& seen, TagWriter& to) {
    constexpr Bits kSequence{0x20, 32}, kAcknowledgement{0x40, 32};
    to.put(kSequence, seen.layer.tcp_sequence);
    to.put(kAcknowledgement, seen.layer.tcp_ack);
}

/// ste_mpls
void mpls(const Seen& seen, TagWriter& to) {
    to.put({0, 32}, seen.inner ? seen.tunnel().inner_mpls : seen.tunnel().mpls);
}

/// Lookups of the outer headers have one number on the receive side and one on the send side, and a
/// third one for the inner headers.
struct Lookup {
    uint8_t received, sent, inner;
    WriteTag write;
};
constexpr uint8_t kNone = 0xff;
constexpr Lookup kLookups[] = {
    {0x1b, 0x06, 0x07, l2_destination},
    {0x1c, 0x08, 0x09, l2_source},
    {0x38, 0x36, 0x37, l2_both},
    {kNone, kNone, 0x0a, l2_tunnelled},
    {0x1e, 0x0d, 0x0e, destination_ip},
    {0x1f, 0x0f, 0x10, source_ip}, // 0x0f is also used by entries that match nothing
    {0x20, 0x11, 0x12, ipv4_5_tuple},
    {0x2b, 0x29, 0x2a, ipv4_misc},
    {0x21, 0x13, 0x14, l4},
    {0x2e, 0x2c, 0x2d, l4_misc},
    {0x25, 0x15, 0x24, mpls},
    {0x16, kNone, kNone, gre},
    {0x19, kNone, kNone, tunnel_header},
    {0x34, kNone, kNone, raw_tunnel_header},
    {0x22, kNone, kNone, flex_parsers_0},
    {0x23, kNone, kNone, flex_parsers_1},
    {0x18, kNone, kNone, general_purpose},
    {0x2f, kNone, kNone, registers_0},
    {0x30, kNone, kNone, registers_1},
    {0x05, kNone, kNone, source_queue},
};

/// Likewise by number.
constexpr auto kByNumber = [] {
    std::array<KnownLookup, 256> known{};
    for (const Lookup& lookup : kLookups) {
        known[lookup.received] = known[lookup.sent] = {lookup.write, false};
        known[lookup.inner] = {lookup.write, true};
    }
    known[kNone] = {};
    return known;
}();

} // namespace

bool look_up(uint16_t lookup, const Packet& packet, Tag& tag) {
    return lookup < kByNumber.size() && write_tag(kByNumber[lookup], packet, tag);
}

} // namespace softhca::core::mlx5_rings::v0
