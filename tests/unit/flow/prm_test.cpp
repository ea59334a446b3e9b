// SPDX-License-Identifier: BSD-3-Clause
// Every field of every item is asked for where the PRM has it, before a tunnel and inside one.
#include "drivers/net/rawqp/ethdev/flow/item_kinds.hpp"
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "drivers/net/rawqp/ethdev/steering/mlx5_words.hpp"
#include "tests/unit/flow/rule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace rawqp::test {
namespace {

// The sections of fte_match_param in the PRM (mlx5_ifc.h of Linux), of 64 bytes each.
constexpr uint16_t kSection = 512, kOuter = 0, kMisc = kSection, kInner = 2 * kSection,
                   kMisc2 = 3 * kSection, kMisc3 = 4 * kSection;
constexpr uint16_t kNowhere = 0xffff;

using Items = std::vector<rte_flow_item_type>;
constexpr auto kEth = RTE_FLOW_ITEM_TYPE_ETH, kVlan = RTE_FLOW_ITEM_TYPE_VLAN,
               kIpv4 = RTE_FLOW_ITEM_TYPE_IPV4, kIpv6 = RTE_FLOW_ITEM_TYPE_IPV6,
               kTcp = RTE_FLOW_ITEM_TYPE_TCP, kUdp = RTE_FLOW_ITEM_TYPE_UDP,
               kIcmp = RTE_FLOW_ITEM_TYPE_ICMP, kIcmp6 = RTE_FLOW_ITEM_TYPE_ICMP6,
               kEsp = RTE_FLOW_ITEM_TYPE_ESP, kMpls = RTE_FLOW_ITEM_TYPE_MPLS,
               kGre = RTE_FLOW_ITEM_TYPE_GRE, kGreKey = RTE_FLOW_ITEM_TYPE_GRE_KEY,
               kNvgre = RTE_FLOW_ITEM_TYPE_NVGRE, kVxlan = RTE_FLOW_ITEM_TYPE_VXLAN,
               kVxlanGpe = RTE_FLOW_ITEM_TYPE_VXLAN_GPE, kGeneve = RTE_FLOW_ITEM_TYPE_GENEVE,
               kGtp = RTE_FLOW_ITEM_TYPE_GTP;

struct Row {
    Items items; ///< after Ethernet; the last one has the field
    uint16_t bit, bits;
    const char* name;           ///< of the first bit's field in the PRM
    uint16_t outer, inner;      ///< its places before and inside a tunnel
    uint64_t implied = kNoMore; ///< the field's value in every such header
    static constexpr uint64_t kNoMore = ~uint64_t{0};
};
/// Of fte_match_set_lyr_2_4.
constexpr Row in_headers(Items items, uint16_t bit, uint16_t bits, const char* name, uint16_t place,
                         uint64_t implied = Row::kNoMore) {
    return {std::move(items),
            bit,
            bits,
            name,
            static_cast<uint16_t>(kOuter + place),
            static_cast<uint16_t>(kInner + place),
            implied};
}

std::vector<Row> rows_of_headers() {
    return {
        in_headers({}, 48, 48, "smac", 0x00),
        in_headers({}, 96, 16, "ethertype", 0x30),
        in_headers({}, 0, 48, "dmac", 0x40),
        in_headers({kVlan}, 0, 16, "first_prio, first_cfi, first_vid", 0x70),
        in_headers({kVlan}, 16, 16, "ethertype", 0x30),
        {{kVlan, kVlan}, 0, 16, "second_prio, …", kMisc + 0x40, kMisc + 0x50},
        in_headers({kVlan, kVlan}, 16, 16, "ethertype", 0x30),
        in_headers({kIpv4}, 0, 4, "ip_version", 0x93, 4),
        in_headers({kIpv4}, 4, 4, "ipv4_ihl", 0xd0),
        in_headers({kIpv4}, 8, 8, "ip_dscp, ip_ecn", 0x88),
        in_headers({kIpv4}, 64, 8, "ttl_hoplimit", 0xd8),
        in_headers({kIpv4}, 72, 8, "ip_protocol", 0x80),
        in_headers({kIpv4}, 96, 32, "src_ipv4", 0x160),
        in_headers({kIpv4}, 128, 32, "dst_ipv4", 0x1e0),
        in_headers({kIpv6}, 0, 4, "ip_version", 0x93, 6),
        in_headers({kIpv6}, 4, 8, "ip_dscp, ip_ecn", 0x88),
        {{kIpv6}, 12, 20, "ipv6_flow_label", kMisc + 0xec, kMisc + 0x10c},
        in_headers({kIpv6}, 48, 8, "ip_protocol", 0x80),
        in_headers({kIpv6}, 56, 8, "ttl_hoplimit", 0xd8),
        in_headers({kIpv6}, 64, 128, "src_ipv6", 0x100),
        in_headers({kIpv6}, 192, 128, "dst_ipv6", 0x180),
        in_headers({kIpv4, kTcp}, 0, 16, "tcp_sport", 0xa0),
        in_headers({kIpv4, kTcp}, 16, 16, "tcp_dport", 0xb0),
        {{kIpv4, kTcp}, 32, 32, "tcp_seq_num", kMisc3 + 0x20, kMisc3 + 0x00},
        {{kIpv4, kTcp}, 64, 32, "tcp_ack_num", kMisc3 + 0x60, kMisc3 + 0x40},
        in_headers({kIpv4, kTcp}, 104, 8, "the last 8 of tcp_flags", 0x98),
        in_headers({kIpv6, kUdp}, 0, 16, "udp_sport", 0xe0),
        in_headers({kIpv6, kUdp}, 16, 16, "udp_dport", 0xf0),
        {{kIpv4, kIcmp}, 0, 8, "icmp_type", kMisc3 + 0x100, kNowhere},
        {{kIpv4, kIcmp}, 8, 8, "icmp_code", kMisc3 + 0x108, kNowhere},
        {{kIpv4, kIcmp}, 32, 16, "icmp_header_data", kMisc3 + 0xc0, kNowhere},
        {{kIpv4, kIcmp}, 48, 16, "icmp_header_data, second half", kMisc3 + 0xd0, kNowhere},
        {{kIpv6, kIcmp6}, 0, 8, "icmpv6_type", kMisc3 + 0x110, kNowhere},
        {{kIpv6, kIcmp6}, 8, 8, "icmpv6_code", kMisc3 + 0x118, kNowhere},
        {{kIpv4, kEsp}, 0, 32, "esp_spi", kMisc + 0x180, kMisc + 0x160},
        {{kMpls}, 0, 24, "first_mpls", kMisc2 + 0x00, kMisc2 + 0x20},
        {{kMpls}, 24, 8, "first_mpls, mpls_ttl", kMisc2 + 0x18, kMisc2 + 0x38},
    };
}

std::vector<Row> rows_of_tunnels() {
    const auto outer = [](Items items, uint16_t bit, uint16_t bits, const char* name, int place,
                          uint64_t implied = Row::kNoMore) {
        return Row{std::move(items), bit,    bits, name, static_cast<uint16_t>(place),
                   kNowhere,         implied};
    };
    const Items gre{kIpv4, kGre}, nvgre{kIpv6, kNvgre}, gpe{kIpv4, kUdp, kVxlanGpe},
        geneve{kIpv4, kUdp, kGeneve}, gtp{kIpv4, kUdp, kGtp}, by_udp{kIpv4, kUdp, kMpls},
        by_gre{kIpv4, kGre, kMpls};
    return {
        outer(gre, 0, 1, "gre_c_present", kMisc + 0x00),
        outer(gre, 2, 1, "gre_k_present", kMisc + 0x02),
        outer(gre, 3, 1, "gre_s_present", kMisc + 0x03),
        outer(gre, 16, 16, "gre_protocol", kMisc + 0x70),
        outer({kIpv4, kGre, kGreKey}, 0, 32, "gre_key", kMisc + 0x80),
        outer(nvgre, 0, 1, "gre_c_present", kMisc + 0x00, 0),
        outer(nvgre, 2, 1, "gre_k_present", kMisc + 0x02, 1),
        outer(nvgre, 3, 1, "gre_s_present", kMisc + 0x03, 0),
        outer(nvgre, 16, 16, "gre_protocol", kMisc + 0x70, 0x6558),
        outer(nvgre, 32, 24, "gre_key.nvgre.hi", kMisc + 0x80),
        outer(nvgre, 56, 8, "gre_key.nvgre.lo", kMisc + 0x98),
        outer({kIpv4, kUdp, kVxlan}, 32, 24, "vxlan_vni", kMisc + 0xa0),
        outer(gpe, 0, 8, "outer_vxlan_gpe_flags", kMisc3 + 0xa8),
        outer(gpe, 24, 8, "outer_vxlan_gpe_next_protocol", kMisc3 + 0xa0),
        outer(gpe, 32, 24, "outer_vxlan_gpe_vni", kMisc3 + 0x88),
        outer(geneve, 2, 6, "geneve_opt_len", kMisc + 0x12a),
        outer(geneve, 8, 1, "geneve_oam", kMisc + 0xdf),
        outer(geneve, 16, 16, "geneve_protocol_type", kMisc + 0x130),
        outer(geneve, 32, 24, "geneve_vni", kMisc + 0xc0),
        outer(gtp, 0, 8, "gtpu_msg_flags", kMisc3 + 0x168),
        outer(gtp, 8, 8, "gtpu_msg_type", kMisc3 + 0x160),
        outer(gtp, 32, 32, "gtpu_teid", kMisc3 + 0x140),
        outer(by_udp, 0, 24, "outer_first_mpls_over_udp", kMisc2 + 0x60),
        outer(by_udp, 24, 8, "outer_first_mpls_over_udp, mpls_ttl", kMisc2 + 0x78),
        outer(by_gre, 0, 24, "outer_first_mpls_over_gre", kMisc2 + 0x40),
        outer(by_gre, 24, 8, "outer_first_mpls_over_gre, mpls_ttl", kMisc2 + 0x58),
    };
}

std::vector<Row> all_rows() {
    std::vector<Row> all = rows_of_headers();
    std::ranges::copy(rows_of_tunnels(), std::back_inserter(all));
    return all;
}

/// An item as bytes.
struct alignas(8) Header {
    std::array<uint8_t, 64> bytes{};
};

/// Values without a pattern, apart from what such headers have.
Header spec_of(const Row& row) {
    Header spec;
    for (size_t i = 0; i < spec.bytes.size(); ++i)
        spec.bytes[i] = static_cast<uint8_t>(0x35 + 0x47 * i);
    if (row.implied != Row::kNoMore) set_bits(spec.bytes, row.bit, row.bits, row.implied);
    return spec;
}

/// What the row's items ask for, with some bits of the last one; none: any such header.
Pattern pattern_of(const Row& row, bool inside, uint16_t bit, uint16_t bits) {
    Items items{kEth};
    if (inside) items.insert(items.end(), {kIpv4, kUdp, kVxlan, kEth});
    std::ranges::copy(row.items, std::back_inserter(items));
    const Header spec = spec_of(row);
    Header mask;
    for (uint16_t i = 0; i < bits; ++i)
        set_bits(mask.bytes, bit + i, 1, 1);
    Rule rule;
    for (size_t i = 0; i + 1 < items.size(); ++i)
        rule.item(items[i]);
    const auto patterns = translate_pattern(rule.item(items.back(), &spec, &mask).pattern());
    if (patterns) return patterns->front();
    ADD_FAILURE() << patterns.error().what;
    return {};
}

/// Without the bits of the row's field.
Mlx5Match rest_of(const Row& row, uint16_t place, Mlx5Match match) {
    for (auto* const part : {&match.mask, &match.value})
        for (uint16_t i = 0; i < row.bits; ++i)
            set_bits(*part, place + i, 1, 0);
    return match;
}

/// Bit by bit: it is in its place, and nothing else changes.
void expect_place(const Row& row, bool inside, uint16_t place) {
    const Mlx5Match without = mlx5_match(pattern_of(row, inside, 0, 0));
    const Mlx5Match rest = rest_of(row, place, without);
    const Header spec = spec_of(row);
    for (uint16_t bit = 0; bit < row.bits; ++bit) {
        const auto asked = static_cast<uint16_t>(row.bit + bit);
        const Mlx5Match with = mlx5_match(pattern_of(row, inside, asked, 1));
        for (uint16_t i = 0; i < row.bits; ++i) {
            const bool masked = i == bit || row.implied != Row::kNoMore;
            EXPECT_EQ(get_bits(with.mask, place + i, 1), masked ? 1u : 0u) << "bit " << i;
            EXPECT_EQ(get_bits(with.value, place + i, 1),
                      masked ? get_bits(spec.bytes, row.bit + i, 1) : 0u)
                << "bit " << i;
        }
        EXPECT_EQ(rest_of(row, place, with).mask, rest.mask);
        EXPECT_EQ(rest_of(row, place, with).value, rest.value);
        EXPECT_EQ(with.criteria, without.criteria | 1 << place / kSection);
    }
}

std::string why_not(const Pattern& pattern) {
    SteeringRequest request;
    request.pattern = pattern;
    const std::optional<Lack> lack = lack_of_match(request);
    return lack ? lack->what() : "";
}

TEST(Prm, FieldsOfItemsAreInTheirPlaces) {
    for (const Row& row : all_rows())
        for (const bool inside : {false, true}) {
            SCOPED_TRACE(testing::Message() << row.name << (inside ? " inside" : ""));
            const uint16_t place = inside ? row.inner : row.outer;
            if (place != kNowhere) {
                expect_place(row, inside, place);
            } else if (row.implied == Row::kNoMore) {
                EXPECT_THAT(why_not(pattern_of(row, inside, row.bit, row.bits)),
                            testing::HasSubstr("cannot be matched inside a tunnel"));
            }
        }
}

TEST(Prm, NoFieldIsLeftOut) {
    std::set<std::tuple<Protocol, uint16_t, uint16_t>> known;
    for (const Row& row : all_rows())
        known.emplace(pattern_of(row, false, 0, 0).last().protocol, row.bit, row.bits);
    for (size_t i = 0; i < kProtocols; ++i) {
        const auto protocol = static_cast<Protocol>(i);
        if (is_metadata(protocol)) continue;
        for (const Field& field : fields_of(protocol)) {
            const bool placed = field.mlx5.outer != Field::kNone && field.bit < kFirstFlag;
            EXPECT_EQ(known.contains({protocol, field.bit, field.bits}), placed)
                << traits_of(protocol).name << " " << field.name;
        }
    }
}

// -- what is not in a header

/// The bits that are asked for, as places in the parameters, and as what they have to be.
void expect_bits(const Pattern& pattern, const Pattern& without, const std::set<uint16_t>& ones,
                 const std::set<uint16_t>& zeros) {
    const Mlx5Match match = mlx5_match(pattern), base = mlx5_match(without);
    for (uint16_t bit = 0; bit < 8 * Mlx5Match::kBytes; ++bit) {
        const bool asked = get_bits(match.mask, bit, 1) != get_bits(base.mask, bit, 1);
        EXPECT_EQ(asked, ones.contains(bit) || zeros.contains(bit)) << "bit " << bit;
        if (asked) {
            EXPECT_EQ(get_bits(match.value, bit, 1), ones.contains(bit) ? 1u : 0u) << bit;
        }
    }
}

Pattern of(bool inside, std::initializer_list<Protocol> protocols) {
    Pattern pattern;
    if (inside) {
        for (const Protocol each : {Protocol::ipv4, Protocol::udp, Protocol::vxlan, Protocol::eth})
            EXPECT_EQ(pattern.push(each), Pattern::Follows::yes);
    }
    for (const Protocol each : protocols)
        EXPECT_EQ(pattern.push(each), Pattern::Follows::yes);
    return pattern;
}

TEST(Prm, TagsAndFragmentsAreInTheirPlaces) {
    for (const bool inside : {false, true}) {
        SCOPED_TRACE(inside ? "inside" : "outside");
        const uint16_t headers = inside ? kInner : kOuter, second = kMisc + (inside ? 1 : 0);
        const auto at = [](unsigned bit) { return static_cast<uint16_t>(bit); };
        const uint16_t cvlan = at(headers + 0x90), svlan = at(headers + 0x91),
                       frag = at(headers + 0x92), second_cvlan = at(second + 0x60),
                       second_svlan = at(second + 0x62);
        const auto flagged = [&](std::initializer_list<Protocol> protocols, uint16_t flag,
                                 uint64_t value) {
            Pattern pattern = of(inside, protocols);
            pattern.last().set(flag, 1, value);
            return pattern;
        };
        using enum Protocol;
        expect_bits(flagged({}, kTagged, 0), of(inside, {}), {}, {cvlan, svlan});
        expect_bits(of(inside, {vlan}), of(inside, {}), {cvlan}, {});
        expect_bits(flagged({vlan}, kTagged, 0), of(inside, {vlan}), {},
                    {second_cvlan, second_svlan});
        expect_bits(of(inside, {vlan, second_vlan}), of(inside, {vlan}), {second_cvlan}, {});
        for (const Protocol ip : {ipv4, ipv6}) {
            expect_bits(flagged({ip}, kFragment, 1), of(inside, {ip}), {frag}, {});
            expect_bits(flagged({ip}, kFragment, 0), of(inside, {ip}), {}, {frag});
        }
        Pattern service = of(inside, {vlan});
        service.last().forget(kCustomerTag, 1);
        service.last().set(kServiceTag, 1, 1);
        expect_bits(service, of(inside, {}), {svlan}, {});
    }
}

} // namespace
} // namespace rawqp::test
