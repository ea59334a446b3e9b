// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/ste/tags.hpp"

#include "app/softhca/core/rings/mlx5/ste/format.hpp"

namespace softhca::core::mlx5_rings {

bool write_tag(const KnownLookup& lookup, const Packet& packet, ste::Tag& tag) {
    if (!lookup.write) return false;
    const FlowKey& key = packet.key();
    TagWriter to;
    lookup.write({packet, lookup.inner ? key.inner : key.outer, lookup.inner}, to);
    tag = to.tag();
    return true;
}

/// ste_eth_l3_ipv6_dst, ste_eth_l3_ipv6_src: for IPv4, the last word.
void destination_ip(const Seen& seen, TagWriter& to) {
    to.put_bytes(0, seen.layer.dst_ip.data(), seen.layer.dst_ip.size());
}
void source_ip(const Seen& seen, TagWriter& to) {
    to.put_bytes(0, seen.layer.src_ip.data(), seen.layer.src_ip.size());
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

/// ste_flex_parser_tnl_vxlan_gpe, _geneve, _gtpu: a packet has at most one of these.
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

TunnelWords tunnel_words(const Packet& packet) {
    TunnelWords words{};
    const net::Headers& headers = packet.headers();
    uint32_t at = headers.l4 != 0 ? headers.payload : headers.l3_end;
    if (at == 0) return words;
    for (uint32_t& word : words) {
        if (packet.inner().at < at + sizeof word) break;
        word = net::load_be<uint32_t>(packet.head() + at);
        at += sizeof word;
    }
    return words;
}

/// ste_tunnel_header: its first words unchanged, for any tunnel.
void raw_tunnel_header(const Seen& seen, TagWriter& to) {
    const TunnelWords words = tunnel_words(seen.packet);
    to.put({0, 32}, words[0]);
    to.put({0x20, 32}, words[1]);
}

/// ste_flex_parser_0, _1: one word per parser, the first one last.
static void put_parsed(TagWriter& to, FlexParser parser, uint32_t word) {
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
static void put_registers(const Seen& seen, unsigned first, TagWriter& to) {
    for (unsigned i = 0; i < kShortTagBytes / sizeof(uint32_t); i++)
        to.put({static_cast<uint8_t>(32 * i), 32}, seen.meta().reg_c[first + i]);
}
void registers_0(const Seen& seen, TagWriter& to) { put_registers(seen, 0, to); }
void registers_1(const Seen& seen, TagWriter& to) { put_registers(seen, 4, to); }

/// ste_src_gvmi_qp: source_gvmi, which distinguishes the ports of a switch, is 0 here.
void source_queue(const Seen& seen, TagWriter& to) { to.put({0x28, 24}, seen.meta().source_sqn); }

} // namespace softhca::core::mlx5_rings
