// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/protocol.hpp"

#include "drivers/net/rawqp/dpdk.hpp"

#include <array>
#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>

namespace rawqp {
namespace {

using Mlx5 = Field::Mlx5Place;
using Verbs = Field::VerbsPlace;

// fte_match_param: outer headers, misc, inner headers, misc 2, misc 3; 64 bytes each.
constexpr uint16_t kBlock = 8 * 64;

/// fte_match_set_lyr_2_4, which exists for outer and inner headers.
constexpr Mlx5 headers(uint16_t bit) { return {bit, static_cast<uint16_t>(2 * kBlock + bit)}; }
/// The miscellaneous parameters: of outer headers and, if they exist, of inner ones.
constexpr Mlx5 in_block(unsigned block, uint16_t outer, uint16_t inner) {
    const auto at = [&](uint16_t bit) {
        return bit == Field::kNone ? bit : static_cast<uint16_t>(block * kBlock + bit);
    };
    return {at(outer), at(inner)};
}
constexpr Mlx5 misc(uint16_t outer, uint16_t inner = Field::kNone) {
    return in_block(1, outer, inner);
}
constexpr Mlx5 misc2(uint16_t outer, uint16_t inner = Field::kNone) {
    return in_block(3, outer, inner);
}
constexpr Mlx5 misc3(uint16_t outer, uint16_t inner = Field::kNone) {
    return in_block(4, outer, inner);
}

constexpr Mlx5 kEtherType = headers(0x30), kIpProtocol = headers(0x80), kTos = headers(0x88),
               kCvlan = headers(0x90), kSvlan = headers(0x91), kFrag = headers(0x92),
               kIpVersion = headers(0x93), kTtl = headers(0xd8);
constexpr Verbs kNotInVerbs{}, kVerbsImplies{Field::kImplied, 0};
constexpr Mlx5 kNotInMlx5{};

// The device finds the EtherType after all VLAN tags, whichever item asks for it.
constexpr Field kEth[] = {
    {"dst", 0, 48, {IBV_FLOW_SPEC_ETH, 0}, headers(0x40)},
    {"src", 48, 48, {IBV_FLOW_SPEC_ETH, 48}, headers(0x00)},
    {"type", 96, 16, {IBV_FLOW_SPEC_ETH, 96}, kEtherType},
    // Only ever matched as zero: a tag is a layer of its own.
    {"has_vlan", kTagged, 1, kNotInVerbs, kCvlan},
    {"has_vlan", kTagged, 1, kNotInVerbs, kSvlan},
    {"reserved", kOtherFlags, 1},
};
constexpr Field kVlan[] = {
    {"tci", 0, 16, {IBV_FLOW_SPEC_ETH, 112}, headers(0x70)},
    {"inner_type", 16, 16, {IBV_FLOW_SPEC_ETH, 96}, kEtherType},
    {"has_more_vlan", kTagged, 1, kNotInVerbs, misc(0x60, 0x61)},
    {"has_more_vlan", kTagged, 1, kNotInVerbs, misc(0x62, 0x63)},
    {"tpid 0x8100", kCustomerTag, 1, kVerbsImplies, kCvlan}, // by any condition on the TCI
    {"tpid 0x88a8", kServiceTag, 1, kNotInVerbs, kSvlan},
    {"reserved", kOtherFlags, 1},
};
constexpr Field kSecondVlan[] = {
    {"tci", 0, 16, kNotInVerbs, misc(0x40, 0x50)},
    {"inner_type", 16, 16, kNotInVerbs, kEtherType},
    {"has_more_vlan", kTagged, 1, kNotInVerbs, kNotInMlx5},
    {"tpid 0x8100", kCustomerTag, 1, kNotInVerbs, misc(0x60, 0x61)},
    {"tpid 0x88a8", kServiceTag, 1, kNotInVerbs, misc(0x62, 0x63)},
    {"reserved", kOtherFlags, 1},
};
constexpr Field kArp[] = {{"header", 0, 8 * 28}};
constexpr Field kMpls[] = {
    {"label, tc, s", 0, 24, {IBV_FLOW_SPEC_MPLS, 0}, misc2(0x00, 0x20)},
    {"ttl", 24, 8, {IBV_FLOW_SPEC_MPLS, 24}, misc2(0x18, 0x38)},
};
constexpr Field kMplsInUdp[] = {
    {"label, tc, s", 0, 24, {IBV_FLOW_SPEC_MPLS, 0}, misc2(0x60)},
    {"ttl", 24, 8, {IBV_FLOW_SPEC_MPLS, 24}, misc2(0x78)},
};
constexpr Field kMplsInGre[] = {
    {"label, tc, s", 0, 24, {IBV_FLOW_SPEC_MPLS, 0}, misc2(0x40)},
    {"ttl", 24, 8, {IBV_FLOW_SPEC_MPLS, 24}, misc2(0x58)},
};
constexpr const char* kAllFragments =
    "ask for whole packets (spec 0, mask 0x3fff) or for all fragments (spec 1, last 0x3fff, mask "
    "0x3fff), or clear its mask";
constexpr Field kIpv4[] = {
    {"version", 0, 4, kVerbsImplies, kIpVersion},
    {"ihl", 4, 4, kNotInVerbs, headers(0xd0)},
    {"tos", 8, 8, {IBV_FLOW_SPEC_IPV4_EXT, 72}, kTos},
    {"length", 16, 16},
    {"packet_id", 32, 16},
    {"fragment_offset", 48, 16, {}, {}, kAllFragments}, // see kFragment
    {"ttl", 64, 8, {IBV_FLOW_SPEC_IPV4_EXT, 80}, kTtl},
    {"proto", 72, 8, {IBV_FLOW_SPEC_IPV4_EXT, 64}, kIpProtocol},
    {"hdr_checksum", 80, 16},
    {"src", 96, 32, {IBV_FLOW_SPEC_IPV4_EXT, 0}, headers(0x160)},
    {"dst", 128, 32, {IBV_FLOW_SPEC_IPV4_EXT, 32}, headers(0x1e0)},
    {"fragment_offset", kFragment, 1, kNotInVerbs, kFrag},
};
constexpr Field kIpv6[] = {
    {"version", 0, 4, kVerbsImplies, kIpVersion},
    {"tc", 4, 8, {IBV_FLOW_SPEC_IPV6, 296}, kTos},
    {"flow", 12, 20, {IBV_FLOW_SPEC_IPV6, 268}, misc(0xec, 0x10c)},
    {"payload_len", 32, 16},
    {"proto", 48, 8, {IBV_FLOW_SPEC_IPV6, 288}, kIpProtocol},
    {"hop", 56, 8, {IBV_FLOW_SPEC_IPV6, 304}, kTtl},
    {"src", 64, 128, {IBV_FLOW_SPEC_IPV6, 0}, headers(0x100)},
    {"dst", 192, 128, {IBV_FLOW_SPEC_IPV6, 128}, headers(0x180)},
    {"has_frag_ext", kFragment, 1, kNotInVerbs, kFrag},
};
constexpr Field kTcp[] = {
    {"src", 0, 16, {IBV_FLOW_SPEC_TCP, 16}, headers(0xa0)},
    {"dst", 16, 16, {IBV_FLOW_SPEC_TCP, 0}, headers(0xb0)},
    {"sent_seq", 32, 32, kNotInVerbs, misc3(0x20, 0x00)},
    {"recv_ack", 64, 32, kNotInVerbs, misc3(0x60, 0x40)},
    {"data_off", 96, 8},
    {"flags", 104, 8, kNotInVerbs, headers(0x98)},
    {"rx_win", 112, 16},
    {"cksum", 128, 16},
    {"tcp_urp", 144, 16},
};
constexpr Field kUdp[] = {
    {"src", 0, 16, {IBV_FLOW_SPEC_UDP, 16}, headers(0xe0)},
    {"dst", 16, 16, {IBV_FLOW_SPEC_UDP, 0}, headers(0xf0)},
    {"length", 32, 16},
    {"cksum", 48, 16},
};
constexpr Field kIcmp[] = {
    {"type", 0, 8, kNotInVerbs, misc3(0x100)},
    {"code", 8, 8, kNotInVerbs, misc3(0x108)},
    {"cksum", 16, 16},
    {"ident", 32, 16, kNotInVerbs, misc3(0xc0)},
    {"seq", 48, 16, kNotInVerbs, misc3(0xd0)},
};
constexpr Field kIcmp6[] = {
    {"type", 0, 8, kNotInVerbs, misc3(0x110)},
    {"code", 8, 8, kNotInVerbs, misc3(0x118)},
    {"checksum", 16, 16},
};
constexpr Field kIgmp[] = {{"header", 0, 8 * 8}};
constexpr Field kEsp[] = {
    {"spi", 0, 32, {IBV_FLOW_SPEC_ESP, 0}, misc(0x180, 0x160)},
    {"seq", 32, 32, {IBV_FLOW_SPEC_ESP, 32}},
};
constexpr Field kAh[] = {{"header", 0, 8 * 12}};
constexpr Mlx5 kGreChecksum = misc(0x00), kGreKeyed = misc(0x02), kGreSequence = misc(0x03),
               kGreProtocol = misc(0x70), kGreKey = misc(0x80), kGreFlowId = misc(0x98);
constexpr Field kGre[] = {
    {"c bit", 0, 1, {IBV_FLOW_SPEC_GRE, 0}, kGreChecksum},
    {"reserved bit", 1, 1, {IBV_FLOW_SPEC_GRE, 1}},
    {"k bit", 2, 1, {IBV_FLOW_SPEC_GRE, 2}, kGreKeyed},
    {"s bit", 3, 1, {IBV_FLOW_SPEC_GRE, 3}, kGreSequence},
    {"rsvd0 and version", 4, 12, {IBV_FLOW_SPEC_GRE, 4}},
    {"protocol", 16, 16, {IBV_FLOW_SPEC_GRE, 16}, kGreProtocol},
};
constexpr Field kGreKeyItem[] = {{"key", 0, 32, {IBV_FLOW_SPEC_GRE, 32}, kGreKey}};
constexpr Field kNvgre[] = {
    {"c bit", 0, 1, {IBV_FLOW_SPEC_GRE, 0}, kGreChecksum},
    {"reserved bit", 1, 1, {IBV_FLOW_SPEC_GRE, 1}},
    {"k bit", 2, 1, {IBV_FLOW_SPEC_GRE, 2}, kGreKeyed},
    {"s bit", 3, 1, {IBV_FLOW_SPEC_GRE, 3}, kGreSequence},
    {"rsvd0 and version", 4, 12, {IBV_FLOW_SPEC_GRE, 4}},
    {"protocol", 16, 16, {IBV_FLOW_SPEC_GRE, 16}, kGreProtocol},
    {"tni", 32, 24, {IBV_FLOW_SPEC_GRE, 32}, kGreKey},
    {"flow_id", 56, 8, {IBV_FLOW_SPEC_GRE, 56}, kGreFlowId},
};
constexpr Field kVxlan[] = {
    {"flags", 0, 8},
    {"rsvd0", 8, 24},
    {"vni", 32, 24, {IBV_FLOW_SPEC_VXLAN_TUNNEL, 8}, misc(0xa0)},
    {"last_rsvd", 56, 8},
};
constexpr Field kVxlanGpe[] = {
    {"flags", 0, 8, kNotInVerbs, misc3(0xa8)},
    {"rsvd0", 8, 16},
    {"protocol", 24, 8, kNotInVerbs, misc3(0xa0)},
    {"vni", 32, 24, kNotInVerbs, misc3(0x88)},
    {"rsvd1", 56, 8},
};
constexpr Field kGeneve[] = {
    {"version", 0, 2},
    {"optlen", 2, 6, kNotInVerbs, misc(0x12a)},
    {"o bit", 8, 1, kNotInVerbs, misc(0xdf)},
    {"c bit and rsvd0", 9, 7},
    {"protocol", 16, 16, kNotInVerbs, misc(0x130)},
    {"vni", 32, 24, kNotInVerbs, misc(0xc0)},
    {"rsvd1", 56, 8},
};
constexpr Field kGtp[] = {
    {"v_pt_rsv_flags", 0, 8, kNotInVerbs, misc3(0x168)},
    {"msg_type", 8, 8, kNotInVerbs, misc3(0x160)},
    {"msg_len", 16, 16},
    {"teid", 32, 32, kNotInVerbs, misc3(0x140)},
};

// Metadata registers C. The kernel uses number 0 to tell ports apart.
constexpr Mlx5 register_c(unsigned number) {
    return misc2(static_cast<uint16_t>(0x160 - 32 * number));
}
constexpr Field kMeta[] = {{"data", 0, 32, kNotInVerbs, register_c(1)}};
constexpr Field kTag[] = {
    {"index 0", 0 * kTagBits, kTagBits, kNotInVerbs, register_c(2)},
    {"index 1", 1 * kTagBits, kTagBits, kNotInVerbs, register_c(3)},
    {"index 2", 2 * kTagBits, kTagBits, kNotInVerbs, register_c(4)},
    {"index 3", 3 * kTagBits, kTagBits, kNotInVerbs, register_c(6)},
};
static_assert(std::size(kTag) == kTags);
constexpr uint16_t kAboveMark = 8; // where kMarked is
constexpr Field kMark[] = {
    {"id", kAboveMark, 24, kNotInVerbs, misc2(0x80 + kAboveMark)}, // register C 7
    {"id", 0, kAboveMark, kNotInVerbs, misc2(0x80)},
};
// The lowest byte of the register in which Linux, too, makes meters leave their color.
constexpr Field kColor[] = {{"color", 0, 8, kNotInVerbs, misc2(0x160 - 32 * kColorRegister + 24)}};
constexpr Field kSentMeta[] = {{"data", 0, 32, kNotInVerbs, misc2(0x180)}}; // register A

} // namespace

constexpr std::array<ProtocolRow, kProtocols> kProtocolRows{{
    {{"eth", 14, false, IBV_FLOW_SPEC_ETH, false}, kEth},
    {{"vlan", 4, false, IBV_FLOW_SPEC_ETH, false}, kVlan},
    {{"vlan", 4, false, 0, false}, kSecondVlan},
    {{"arp_eth_ipv4", 28, false, 0, false}, kArp},
    {{"mpls", 4, true, IBV_FLOW_SPEC_MPLS, false}, kMpls},
    {{"mpls", 4, true, IBV_FLOW_SPEC_MPLS, false}, kMplsInUdp},
    {{"mpls", 4, true, IBV_FLOW_SPEC_MPLS, false}, kMplsInGre},
    {{"ipv4", 20, false, IBV_FLOW_SPEC_IPV4_EXT, true, 0x40000000, 0xf0000000}, kIpv4},
    {{"ipv6", 40, false, IBV_FLOW_SPEC_IPV6, true, 0x60000000, 0xf0000000}, kIpv6},
    {{"tcp", 20, false, IBV_FLOW_SPEC_TCP, true}, kTcp},
    {{"udp", 8, false, IBV_FLOW_SPEC_UDP, true}, kUdp},
    {{"icmp", 8, false, 0, false}, kIcmp},
    {{"icmp6", 4, false, 0, false}, kIcmp6},
    {{"igmp", 8, false, 0, false}, kIgmp},
    {{"esp", 8, false, IBV_FLOW_SPEC_ESP, false}, kEsp},
    {{"ah", 12, false, 0, false}, kAh},
    {{"gre", 4, true, IBV_FLOW_SPEC_GRE, true}, kGre},
    {{"gre_key", 4, true, IBV_FLOW_SPEC_GRE, false}, kGreKeyItem},
    {{"nvgre", 8, true, IBV_FLOW_SPEC_GRE, true, 0x20006558, 0xb000ffff}, kNvgre},
    {{"vxlan", 8, true, IBV_FLOW_SPEC_VXLAN_TUNNEL, false}, kVxlan},
    {{"vxlan-gpe", 8, true, 0, false}, kVxlanGpe},
    {{"geneve", 8, true, 0, false}, kGeneve},
    {{"gtp", 8, true, 0, false}, kGtp},
    {{"meta", 4, false, 0, false}, kMeta},
    {{"tag", kTags* kTagBits / 8, false, 0, false}, kTag},
    {{"mark", 4, false, 0, false}, kMark},
    {{"meter_color", 1, false, 0, false}, kColor},
    {{"meta", 4, false, 0, false}, kSentMeta},
}};

namespace {

using enum Protocol;
constexpr uint16_t kTypeOfEth = 96, kTypeOfVlan = 16, kProtoOfIpv4 = 72, kProtoOfIpv6 = 48,
                   kPortOfUdp = 16;
// Bindings with the same lower header are adjacent.
constexpr Binding kBindings[] = {
    {eth, vlan, kTypeOfEth, 16, RTE_ETHER_TYPE_VLAN},
    {eth, vlan, kTypeOfEth, 16, RTE_ETHER_TYPE_QINQ},
    {eth, ipv4, kTypeOfEth, 16, RTE_ETHER_TYPE_IPV4},
    {eth, ipv6, kTypeOfEth, 16, RTE_ETHER_TYPE_IPV6},
    {eth, arp, kTypeOfEth, 16, RTE_ETHER_TYPE_ARP},
    {eth, mpls, kTypeOfEth, 16, RTE_ETHER_TYPE_MPLS},
    {vlan, second_vlan, kTypeOfVlan, 16, RTE_ETHER_TYPE_VLAN},
    {vlan, second_vlan, kTypeOfVlan, 16, RTE_ETHER_TYPE_QINQ},
    {vlan, ipv4, kTypeOfVlan, 16, RTE_ETHER_TYPE_IPV4},
    {vlan, ipv6, kTypeOfVlan, 16, RTE_ETHER_TYPE_IPV6},
    {vlan, arp, kTypeOfVlan, 16, RTE_ETHER_TYPE_ARP},
    {vlan, mpls, kTypeOfVlan, 16, RTE_ETHER_TYPE_MPLS},
    {second_vlan, ipv4, kTypeOfVlan, 16, RTE_ETHER_TYPE_IPV4},
    {second_vlan, ipv6, kTypeOfVlan, 16, RTE_ETHER_TYPE_IPV6},
    {second_vlan, arp, kTypeOfVlan, 16, RTE_ETHER_TYPE_ARP},
    {second_vlan, mpls, kTypeOfVlan, 16, RTE_ETHER_TYPE_MPLS},
    {ipv4, tcp, kProtoOfIpv4, 8, IPPROTO_TCP},
    {ipv4, udp, kProtoOfIpv4, 8, IPPROTO_UDP},
    {ipv4, icmp, kProtoOfIpv4, 8, IPPROTO_ICMP},
    {ipv4, igmp, kProtoOfIpv4, 8, IPPROTO_IGMP},
    {ipv4, esp, kProtoOfIpv4, 8, IPPROTO_ESP},
    {ipv4, ah, kProtoOfIpv4, 8, IPPROTO_AH},
    {ipv4, gre, kProtoOfIpv4, 8, IPPROTO_GRE},
    {ipv4, nvgre, kProtoOfIpv4, 8, IPPROTO_GRE},
    {ipv6, tcp, kProtoOfIpv6, 8, IPPROTO_TCP},
    {ipv6, udp, kProtoOfIpv6, 8, IPPROTO_UDP},
    {ipv6, icmp6, kProtoOfIpv6, 8, IPPROTO_ICMPV6},
    {ipv6, esp, kProtoOfIpv6, 8, IPPROTO_ESP},
    {ipv6, ah, kProtoOfIpv6, 8, IPPROTO_AH},
    {ipv6, gre, kProtoOfIpv6, 8, IPPROTO_GRE},
    {ipv6, nvgre, kProtoOfIpv6, 8, IPPROTO_GRE},
    {udp, vxlan, kPortOfUdp, 16, 4789},
    {udp, vxlan_gpe, kPortOfUdp, 16, 4790},
    {udp, geneve, kPortOfUdp, 16, 6081},
    {udp, gtp, kPortOfUdp, 16, 2152},
    {udp, mpls_in_udp, kPortOfUdp, 16, 6635},
    {udp, esp, kPortOfUdp, 16, 4500},
    {vxlan, eth, 0, 0, 0},
    {vxlan_gpe, ipv4, 24, 8, 1},
    {vxlan_gpe, ipv6, 24, 8, 2},
    {vxlan_gpe, eth, 24, 8, 3},
    {geneve, eth, 16, 16, RTE_ETHER_TYPE_TEB},
    {geneve, ipv4, 16, 16, RTE_ETHER_TYPE_IPV4},
    {geneve, ipv6, 16, 16, RTE_ETHER_TYPE_IPV6},
    {gtp, ipv4, 0, 0, 0},
    {gtp, ipv6, 0, 0, 0},
    {gre, gre_key, 2, 1, 1},
    {gre, eth, 16, 16, RTE_ETHER_TYPE_TEB},
    {gre, ipv4, 16, 16, RTE_ETHER_TYPE_IPV4},
    {gre, ipv6, 16, 16, RTE_ETHER_TYPE_IPV6},
    {gre, mpls_in_gre, 16, 16, RTE_ETHER_TYPE_MPLS},
    {gre_key, eth, 0, 0, 0}, // as the GRE header before it says
    {gre_key, ipv4, 0, 0, 0},
    {gre_key, ipv6, 0, 0, 0},
    {nvgre, eth, 0, 0, 0},
    {mpls, ipv4, 0, 0, 0},
    {mpls, ipv6, 0, 0, 0},
    {mpls, eth, 0, 0, 0},
    {mpls_in_udp, ipv4, 0, 0, 0},
    {mpls_in_udp, ipv6, 0, 0, 0},
    {mpls_in_udp, eth, 0, 0, 0},
    {mpls_in_gre, ipv4, 0, 0, 0},
    {mpls_in_gre, ipv6, 0, 0, 0},
    {mpls_in_gre, eth, 0, 0, 0},
};

struct Stretch {
    uint8_t first = 0, count = 0;
};
constexpr auto kStretches = [] {
    std::array<Stretch, kProtocols> stretches{};
    for (size_t i = 0; i < std::size(kBindings); ++i) {
        Stretch& of = stretches[static_cast<size_t>(kBindings[i].lower)];
        if (of.count++ == 0) of.first = static_cast<uint8_t>(i);
    }
    return stretches;
}();
static_assert([] {
    for (size_t i = 0; i < std::size(kBindings); ++i) {
        const Stretch& of = kStretches[static_cast<size_t>(kBindings[i].lower)];
        if (i < of.first || i >= of.first + of.count) return false;
    }
    return true;
}());

} // namespace

std::span<const Binding> bindings() { return kBindings; }
std::span<const Binding> bindings_of(Protocol lower) {
    const Stretch& of = kStretches[static_cast<size_t>(lower)];
    return std::span(kBindings).subspan(of.first, of.count);
}

std::string number_text(std::span<const uint8_t> bytes, size_t bit, size_t count) {
    constexpr size_t kByte = 8, kWord = 32;
    if (count <= kWord) return fmt::format("{:#x}", get_bits(bytes, bit, count));
    std::string text;
    for (const size_t end = bit + count; bit < end; bit += kByte)
        text += fmt::format("{:02x}", get_bits(bytes, bit, kByte));
    return text;
}

} // namespace rawqp
