// SPDX-License-Identifier: BSD-3-Clause
// Lookup types: which fields of a packet stand where in a tag.
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "app/softhca/core/rings/mlx5/ste/layout.hpp"
#include "common/net/l4.hpp"

namespace softhca::core::mlx5_rings {
namespace {

using ste::kTagBytes;
using ste::Tag;

/// A field of a tag, from its highest bit on, counted from the start of the tag. None crosses a
/// 32-bit word.
struct Bits {
    uint8_t at, width;
};

class TagWriter {
  public:
    void put(Bits bits, uint32_t value) {
        const unsigned shift = 32u - bits.at % 32u - bits.width;
        words_[bits.at / 32] |= value << shift;
    }
    void put_bytes(uint8_t word, const uint8_t* bytes, size_t count) {
        for (size_t i = 0; i < count; i += sizeof(uint32_t))
            words_[word + i / sizeof(uint32_t)] = net::load_be<uint32_t>(bytes + i);
    }
    [[nodiscard]] Tag tag() const {
        Tag tag;
        for (size_t i = 0; i < words_.size(); i++)
            net::store_be(tag.data() + i * sizeof(uint32_t), words_[i]);
        return tag;
    }

  private:
    std::array<uint32_t, kTagBytes / sizeof(uint32_t)> words_{};
};

/// The packet, and which of its layers the lookup is about.
struct Seen {
    const Packet& packet;
    const LayerKey& layer;
    bool inner;
    [[nodiscard]] const TunnelKey& tunnel() const { return packet.key().tunnel; }
    [[nodiscard]] const MetaKey& meta() const { return packet.key().meta; }
};

uint32_t mac_47_16(const std::array<uint8_t, 6>& mac) { return net::load_be<uint32_t>(mac.data()); }
uint32_t mac_15_0(const std::array<uint8_t, 6>& mac) {
    return net::load_be<uint16_t>(mac.data() + 4);
}

uint32_t qualifier(uint8_t svlan, uint8_t cvlan) {
    constexpr uint32_t kService = 1, kCustomer = 2;
    return svlan ? kService : cvlan ? kCustomer : 0;
}
uint32_t l3_type(const LayerKey& layer) {
    return layer.ip_version == 4 ? 1 : layer.ip_version == 6 ? 2 : 0;
}

/// Priority and CFI, the qualifier and the id of a tag, at three places.
struct VlanBits {
    Bits priority_cfi, kind, id;
};
void put_vlan(TagWriter& to, const VlanBits& bits, uint16_t tci, uint32_t kind) {
    to.put(bits.priority_cfi, tci >> 12);
    to.put(bits.kind, kind);
    to.put(bits.id, tci & 0xfff);
}
void put_first_vlan(TagWriter& to, const VlanBits& bits, const LayerKey& layer) {
    put_vlan(to, bits, layer.vlan_tci, qualifier(layer.svlan, layer.cvlan));
}

/// ste_eth_l2_src, ste_eth_l2_dst: but for the address.
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
    put_vlan(to, kSecond, layer.second_tci, qualifier(layer.second_svlan, layer.second_cvlan));
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
    constexpr uint8_t kDestination = 0, kSource = 1, kIpv4At = 12;
    const LayerKey& layer = seen.layer;
    if (layer.ip_version == 4) {
        to.put_bytes(kDestination, layer.dst_ip.data() + kIpv4At, sizeof(uint32_t));
        to.put_bytes(kSource, layer.src_ip.data() + kIpv4At, sizeof(uint32_t));
    }
    to.put(kSourcePort, layer.src_port);
    to.put(kDestinationPort, layer.dst_port);
    to.put(kFragment, layer.ip_fragment);
    to.put(kEcn, layer.tos & 3);
    to.put(kTcpFlags, layer.tcp_flags);
    to.put(kDscp, layer.tos >> 2);
    to.put(kProtocol, layer.ip_proto);
}

/// ste_eth_l3_ipv6_dst, ste_eth_l3_ipv6_src: of IPv4, the last word.
void destination_ip(const Seen& seen, TagWriter& to) {
    to.put_bytes(0, seen.layer.dst_ip.data(), seen.layer.dst_ip.size());
}
void source_ip(const Seen& seen, TagWriter& to) {
    to.put_bytes(0, seen.layer.src_ip.data(), seen.layer.src_ip.size());
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

/// ste_eth_l4_misc: of TCP, what the device's own keys do not have.
void l4_misc(const Seen& seen, TagWriter& to) {
    constexpr Bits kSequence{0x20, 32}, kAcknowledgement{0x40, 32};
    if (seen.inner && seen.packet.headers().inner == 0) return;
    const net::Headers headers = seen.inner ? seen.packet.inner_headers() : seen.packet.headers();
    if (headers.l4 == 0 || headers.ip_proto != net::kProtoTcp) return;
    const std::byte* const tcp = seen.packet.head() + headers.l4;
    to.put(kSequence, net::load_be<uint32_t>(tcp + 4));
    to.put(kAcknowledgement, net::load_be<uint32_t>(tcp + 8));
}

/// ste_mpls
void mpls(const Seen& seen, TagWriter& to) {
    to.put({0, 32}, seen.inner ? seen.tunnel().inner_mpls : seen.tunnel().mpls);
}

/// ste_gre
void gre(const Seen& seen, TagWriter& to) {
    constexpr Bits kChecksum{0, 1}, kHasKey{2, 1}, kSequence{3, 1}, kProtocol{0x10, 16},
        kKey{0x40, 32};
    const TunnelKey& tunnel = seen.tunnel();
    to.put(kChecksum, tunnel.gre_checksum);
    to.put(kHasKey, tunnel.gre_has_key);
    to.put(kSequence, tunnel.gre_sequence);
    to.put(kProtocol, tunnel.gre_protocol);
    to.put(kKey, tunnel.gre_key);
}

/// ste_flex_parser_tnl_vxlan_gpe, _geneve, _gtpu: of which a packet has one at most.
void tunnel_header(const Seen& seen, TagWriter& to) {
    constexpr Bits kGpeFlags{0, 8}, kGpeProtocol{0x18, 8}, kVni{0x20, 24}, kOptions{2, 6},
        kOam{8, 1}, kGeneveProtocol{0x10, 16}, kGtpFlags{0, 8}, kGtpType{8, 8}, kTeid{0x20, 32};
    const TunnelKey& tunnel = seen.tunnel();
    to.put(kGpeFlags, tunnel.gpe_flags);
    to.put(kGpeProtocol, tunnel.gpe_protocol);
    to.put(kVni, tunnel.gpe_vni);
    to.put(kOptions, tunnel.geneve_options);
    to.put(kOam, tunnel.geneve_oam);
    to.put(kGeneveProtocol, tunnel.geneve_protocol);
    to.put(kVni, tunnel.geneve_vni);
    to.put(kGtpFlags, tunnel.gtpu_flags);
    to.put(kGtpType, tunnel.gtpu_type);
    to.put(kTeid, tunnel.gtpu_teid);
}

/// ste_tunnel_header: its first words as they are, of whatever tunnel.
void raw_tunnel_header(const Seen& seen, TagWriter& to) {
    constexpr Bits kFirst{0, 32}, kSecond{0x20, 32};
    const net::Headers& headers = seen.packet.headers();
    const uint32_t at = headers.l4 != 0 ? headers.payload : headers.l3_end;
    if (at == 0 || seen.packet.inner().at < at + 2 * sizeof(uint32_t)) return;
    to.put(kFirst, net::load_be<uint32_t>(seen.packet.head() + at));
    to.put(kSecond, net::load_be<uint32_t>(seen.packet.head() + at + sizeof(uint32_t)));
}

/// ste_flex_parser_0, _1: each parser a word, the first one last.
void put_parsed(TagWriter& to, FlexParser parser, uint32_t word) {
    constexpr unsigned kParsers = 4, kWord = 32;
    const auto at = (kParsers - 1 - static_cast<unsigned>(parser) % kParsers) * kWord;
    to.put({static_cast<uint8_t>(at), kWord}, word);
}
void flex_parsers_0(const Seen& seen, TagWriter& to) {
    const TunnelKey& tunnel = seen.tunnel();
    const auto head = [](uint8_t type, uint8_t code) {
        return uint32_t{type} << 24 | uint32_t{code} << 16;
    };
    put_parsed(to, FlexParser::icmp_dw0, head(tunnel.icmp_type, tunnel.icmp_code));
    put_parsed(to, FlexParser::icmp_dw1, tunnel.icmp_data);
    put_parsed(to, FlexParser::icmpv6_dw0, head(tunnel.icmpv6_type, tunnel.icmpv6_code));
    put_parsed(to, FlexParser::icmpv6_dw1, tunnel.icmpv6_data);
}
void flex_parsers_1(const Seen& seen, TagWriter& to) {
    put_parsed(to, FlexParser::mpls_over_gre, seen.tunnel().mpls_over_gre);
    put_parsed(to, FlexParser::mpls_over_udp, seen.tunnel().mpls_over_udp);
}

/// ste_general_purpose
void general_purpose(const Seen& seen, TagWriter& to) { to.put({0, 32}, seen.meta().reg_a); }

/// ste_register_0, ste_register_1
void put_registers(const Seen& seen, unsigned first, TagWriter& to) {
    for (unsigned i = 0; i < kTagBytes / sizeof(uint32_t); i++)
        to.put({static_cast<uint8_t>(32 * i), 32}, seen.meta().reg_c[first + i]);
}
void registers_0(const Seen& seen, TagWriter& to) { put_registers(seen, 0, to); }
void registers_1(const Seen& seen, TagWriter& to) { put_registers(seen, 4, to); }

/// ste_src_gvmi_qp: source_gvmi, which tells the ports of a switch apart, is 0 here.
void source_queue(const Seen& seen, TagWriter& to) { to.put({0x28, 24}, seen.meta().source_sqn); }

/// Lookups of the outer headers have one number where packets arrive and one where they are sent,
/// and a third one for the inner headers.
struct Lookup {
    uint8_t received, sent, inner;
    void (*write)(const Seen&, TagWriter&);
};
constexpr uint8_t kNone = 0xff;
constexpr Lookup kLookups[] = {
    {0x1b, 0x06, 0x07, l2_destination},
    {0x1c, 0x08, 0x09, l2_source},
    {0x38, 0x36, 0x37, l2_both},
    {kNone, kNone, 0x0a, l2_tunnelled},
    {0x1e, 0x0d, 0x0e, destination_ip},
    {0x1f, 0x0f, 0x10, source_ip}, // 0x0f is also what entries have that look at nothing
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

/// The same by number.
struct Known {
    void (*write)(const Seen&, TagWriter&) = nullptr;
    bool inner = false;
};
constexpr auto kByNumber = [] {
    std::array<Known, 256> known{};
    for (const Lookup& lookup : kLookups) {
        known[lookup.received] = known[lookup.sent] = {lookup.write, false};
        known[lookup.inner] = {lookup.write, true};
    }
    known[kNone] = {};
    return known;
}();

} // namespace

bool look_up(uint16_t lookup, const Packet& packet, Tag& tag) {
    const Known known = lookup < kByNumber.size() ? kByNumber[lookup] : Known{};
    if (!known.write) return false;
    const FlowKey& key = packet.key();
    TagWriter to;
    known.write({packet, known.inner ? key.inner : key.outer, known.inner}, to);
    tag = to.tag();
    return true;
}

} // namespace softhca::core::mlx5_rings
