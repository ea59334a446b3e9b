// SPDX-License-Identifier: BSD-3-Clause
// Each rte_flow item: the exact bytes of its verbs spec, and what is refused and why.
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "tests/unit/flow/fake_device.hpp"
#include "tests/unit/flow/rule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// The bytes of the single match that the pattern expands to.
Bytes translated(const Rule& rule) {
    const auto matches = translate_pattern(rule.pattern());
    if (!matches) {
        ADD_FAILURE() << matches.error().what;
        return {};
    }
    EXPECT_EQ(matches->size(), 1u);
    return verbs_specs(matches->front());
}

FlowError refused(const Rule& rule) {
    const auto matches = translate_pattern(rule.pattern());
    EXPECT_FALSE(matches) << "pattern was accepted";
    return matches ? FlowError{} : matches.error();
}

// An eth spec: type, size, value (dst, src, type, tag), mask, two bytes of padding.
const std::string kEthHead = "20000000 2800";
const std::string kAnyEth = kEthHead + std::string(64, '0') + "0000";

TEST(Items, EmptyPatternMatchesEverything) {
    EXPECT_EQ(translated(Rule()), hex(kAnyEth));
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_VOID).item(RTE_FLOW_ITEM_TYPE_ETH)),
              hex(kAnyEth));
}

TEST(Items, EthExact) {
    auto spec = zeroed<rte_flow_item_eth>();
    spec.hdr.dst_addr = {{1, 2, 3, 4, 5, 6}};
    spec.hdr.src_addr = {{7, 8, 9, 10, 11, 12}};
    spec.hdr.ether_type = RTE_BE16(0x88b5);
    auto mask = zeroed<rte_flow_item_eth>();
    std::memset(static_cast<void*>(&mask.hdr), 0xff, sizeof mask.hdr);
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &spec, &mask)),
              hex(kEthHead + "010203040506 0708090a0b0c 88b5 0000"
                             "ffffffffffff ffffffffffff ffff 0000 0000"));
    // The default mask excludes EtherType.
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &spec)),
              hex(kEthHead + "010203040506 0708090a0b0c 0000 0000"
                             "ffffffffffff ffffffffffff 0000 0000 0000"));
}

TEST(Items, BitsOutsideTheMaskAreDropped) {
    const auto spec = [] {
        auto eth = all_ones<rte_flow_item_eth>();
        eth.has_vlan = eth.reserved = 0;
        return eth;
    }();
    auto mask = zeroed<rte_flow_item_eth>();
    mask.hdr.dst_addr.addr_bytes[0] = 0x01;
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &spec, &mask)),
              hex(kEthHead + "010000000000 000000000000 0000 0000"
                             "010000000000 000000000000 0000 0000 0000"));
}

TEST(Items, VlanGoesIntoTheEthSpec) {
    auto spec = zeroed<rte_flow_item_vlan>();
    spec.hdr.vlan_tci = RTE_BE16(0xe123);
    spec.hdr.eth_proto = RTE_BE16(0x0806);
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_VLAN, &spec)),
              hex(kEthHead + "000000000000 000000000000 0000 0123"
                             "000000000000 000000000000 0000 0fff 0000"));
    auto mask = zeroed<rte_flow_item_vlan>();
    mask.hdr.vlan_tci = RTE_BE16(0xffff);
    mask.hdr.eth_proto = RTE_BE16(0xffff);
    auto eth = zeroed<rte_flow_item_eth>();
    eth.hdr.ether_type = RTE_BE16(0x8100);
    auto eth_mask = zeroed<rte_flow_item_eth>();
    eth_mask.hdr.ether_type = RTE_BE16(0xffff);
    EXPECT_EQ(translated(Rule()
                             .item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask)
                             .item(RTE_FLOW_ITEM_TYPE_VLAN, &spec, &mask)),
              hex(kEthHead + "000000000000 000000000000 0806 e123"
                             "000000000000 000000000000 ffff ffff 0000"));
}

TEST(Items, AnyVlanIsEitherValueOfOneTagBit) {
    const auto matches = translate_pattern(
        Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_VLAN).pattern());
    ASSERT_TRUE(matches);
    ASSERT_EQ(matches->size(), 2u);
    EXPECT_EQ(verbs_specs((*matches)[0]),
              hex(kEthHead + "000000000000 000000000000 0000 0000"
                             "000000000000 000000000000 0000 1000 0000"));
    EXPECT_EQ(verbs_specs((*matches)[1]),
              hex(kEthHead + "000000000000 000000000000 0000 1000"
                             "000000000000 000000000000 0000 1000 0000"));
}

TEST(Items, Ipv4EveryField) {
    auto spec = zeroed<rte_flow_item_ipv4>();
    spec.hdr.src_addr = RTE_BE32(0x0a000001);
    spec.hdr.dst_addr = RTE_BE32(0xc0a80102);
    spec.hdr.next_proto_id = 47;
    spec.hdr.type_of_service = 0xb8;
    spec.hdr.time_to_live = 64;
    auto mask = zeroed<rte_flow_item_ipv4>();
    mask.hdr.src_addr = RTE_BE32(0xffffff00);
    mask.hdr.dst_addr = RTE_BE32(0xffffffff);
    mask.hdr.next_proto_id = 0xff;
    mask.hdr.type_of_service = 0xfc;
    mask.hdr.time_to_live = 0xff;
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4, &spec, &mask)),
              hex(kAnyEth + "32000000 2000 0000"
                            "0a000000 c0a80102 2f b8 40 00"
                            "ffffff00 ffffffff ff fc ff 00"));
    // By default, only the addresses.
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4, &spec)),
              hex(kAnyEth + "32000000 2000 0000"
                            "0a000001 c0a80102 00 00 00 00"
                            "ffffffff ffffffff 00 00 00 00"));
}

TEST(Items, Ipv6EveryField) {
    auto spec = zeroed<rte_flow_item_ipv6>();
    auto mask = zeroed<rte_flow_item_ipv6>();
    std::memset(static_cast<void*>(&spec.hdr.src_addr), 0x11, 16);
    std::memset(static_cast<void*>(&spec.hdr.dst_addr), 0x22, 16);
    std::memset(static_cast<void*>(&mask.hdr.src_addr), 0xff, 16);
    std::memset(static_cast<void*>(&mask.hdr.dst_addr), 0xf0, 16);
    spec.hdr.vtc_flow = RTE_BE32(0x6ab12345); // class 0xab, label 0x12345
    mask.hdr.vtc_flow = RTE_BE32(0xfffffff0);
    spec.hdr.proto = 58;
    mask.hdr.proto = 0xff;
    spec.hdr.hop_limits = 255;
    mask.hdr.hop_limits = 0xff;
    EXPECT_EQ(translated(Rule().item(RTE_FLOW_ITEM_TYPE_IPV6, &spec, &mask)),
              hex(kAnyEth + "31000000 5800 0000"
                            "11111111111111111111111111111111 20202020202020202020202020202020"
                            "00012340 3a ab ff 00"
                            "ffffffffffffffffffffffffffffffff f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0"
                            "000ffff0 ff ff ff 00"));
}

TEST(Items, TcpAndUdpPorts) {
    auto tcp = zeroed<rte_flow_item_tcp>();
    tcp.hdr.src_port = RTE_BE16(0x1234);
    tcp.hdr.dst_port = RTE_BE16(80);
    const std::string any_ipv4 = "32000000 2000" + std::string(52, '0');
    EXPECT_EQ(translated(Rule()
                             .item(RTE_FLOW_ITEM_TYPE_ETH)
                             .item(RTE_FLOW_ITEM_TYPE_IPV4)
                             .item(RTE_FLOW_ITEM_TYPE_TCP, &tcp)),
              hex(kAnyEth + any_ipv4 + "40000000 1000 0050 1234 ffff ffff 0000"));
    auto udp = zeroed<rte_flow_item_udp>();
    udp.hdr.dst_port = RTE_BE16(4789);
    auto mask = zeroed<rte_flow_item_udp>();
    mask.hdr.dst_port = RTE_BE16(0xfff0);
    const std::string any_ipv6 = "31000000 5800" + std::string(164, '0');
    EXPECT_EQ(
        translated(Rule().item(RTE_FLOW_ITEM_TYPE_IPV6).item(RTE_FLOW_ITEM_TYPE_UDP, &udp, &mask)),
        hex(kAnyEth + any_ipv6 + "41000000 1000 12b0 0000 fff0 0000 0000"));
}

TEST(Items, ConditionsThatTheNextLayerImpliesAreDropped) {
    auto eth = zeroed<rte_flow_item_eth>();
    eth.hdr.ether_type = RTE_BE16(0x0800);
    auto eth_mask = zeroed<rte_flow_item_eth>();
    eth_mask.hdr.ether_type = RTE_BE16(0xffff);
    auto ipv4 = zeroed<rte_flow_item_ipv4>();
    ipv4.hdr.next_proto_id = 17;
    auto ipv4_mask = zeroed<rte_flow_item_ipv4>();
    ipv4_mask.hdr.next_proto_id = 0xff;
    EXPECT_EQ(translated(Rule()
                             .item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask)
                             .item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, &ipv4_mask)
                             .item(RTE_FLOW_ITEM_TYPE_UDP)),
              translated(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_UDP)));
}

TEST(ItemsRefused, ContradictionsNameTheItem) {
    auto eth = zeroed<rte_flow_item_eth>();
    eth.hdr.ether_type = RTE_BE16(0x86dd);
    auto eth_mask = zeroed<rte_flow_item_eth>();
    eth_mask.hdr.ether_type = RTE_BE16(0xffff);
    Rule rule;
    rule.item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask).item(RTE_FLOW_ITEM_TYPE_IPV4);
    FlowError error = refused(rule);
    EXPECT_EQ(error.code, EINVAL);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM);
    EXPECT_EQ(error.cause, &rule.pattern()[1]);
    EXPECT_EQ(error.what, "item ipv4 contradicts field type 0x86dd of item eth before it");

    EXPECT_THAT(
        refused(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask).item(RTE_FLOW_ITEM_TYPE_VLAN))
            .what,
        HasSubstr("item vlan contradicts field type 0x86dd"));

    auto ipv6 = zeroed<rte_flow_item_ipv6>();
    ipv6.hdr.proto = 17;
    auto ipv6_mask = zeroed<rte_flow_item_ipv6>();
    ipv6_mask.hdr.proto = 0xff;
    EXPECT_THAT(
        refused(
            Rule().item(RTE_FLOW_ITEM_TYPE_IPV6, &ipv6, &ipv6_mask).item(RTE_FLOW_ITEM_TYPE_TCP))
            .what,
        HasSubstr("item tcp contradicts field proto 0x11"));

    const rte_flow_item_gre gre{.c_rsvd0_ver = 0, .protocol = RTE_BE16(0x86dd)};
    EXPECT_THAT(refused(Rule()
                            .item(RTE_FLOW_ITEM_TYPE_IPV4)
                            .item(RTE_FLOW_ITEM_TYPE_GRE, &gre)
                            .item(RTE_FLOW_ITEM_TYPE_GRE_KEY)
                            .item(RTE_FLOW_ITEM_TYPE_ETH))
                    .what,
                HasSubstr("item eth contradicts field protocol 0x86dd of item gre"));

    ipv6.hdr.vtc_flow = RTE_BE32(0x40000000);
    ipv6_mask.hdr.vtc_flow = RTE_BE32(0xf0000000);
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_IPV6, &ipv6, &ipv6_mask)).what,
                HasSubstr("item ipv6: no such header has this value in field version"));
}

/// An item that says both that a tag follows and that none does.
TEST(ItemsRefused, ATagThatIsNotThere) {
    auto eth = zeroed<rte_flow_item_eth>(), eth_mask = eth;
    eth.hdr.ether_type = RTE_BE16(0x8100);
    eth_mask.hdr.ether_type = RTE_BE16(0xffff);
    eth_mask.has_vlan = 1;
    Rule rule;
    rule.item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask);
    FlowError error = refused(rule);
    EXPECT_EQ(error.code, EINVAL);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_SPEC);
    EXPECT_EQ(error.cause, rule.pattern());
    EXPECT_THAT(error.what, HasSubstr("type is that of a VLAN tag, and has_vlan 0 says"));

    auto vlan = zeroed<rte_flow_item_vlan>(), vlan_mask = vlan;
    vlan.hdr.eth_proto = RTE_BE16(0x88a8);
    vlan_mask.hdr.eth_proto = RTE_BE16(0xffff);
    vlan_mask.has_more_vlan = 1;
    rule = Rule().item(RTE_FLOW_ITEM_TYPE_VLAN, &vlan, &vlan_mask);
    error = refused(rule);
    EXPECT_EQ(error.code, EINVAL);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_SPEC);
    EXPECT_EQ(error.cause, rule.pattern());
    EXPECT_THAT(error.what, HasSubstr("inner_type is that of a VLAN tag, and has_more_vlan 0"));
}

std::vector<std::string> texts(const Rule& rule) {
    std::vector<std::string> list;
    const auto patterns = translate_pattern(rule.pattern());
    EXPECT_TRUE(patterns) << patterns.error().what;
    for (const Pattern& pattern : patterns.value_or(ShortList<Pattern>{}))
        list.push_back(pattern.text());
    return list;
}

TEST(Items, ATagThatAnotherItemAsksForIsALayer) {
    auto eth = zeroed<rte_flow_item_eth>();
    auto mask = zeroed<rte_flow_item_eth>();
    eth.hdr.ether_type = RTE_BE16(0x88a8);
    mask.hdr.ether_type = RTE_BE16(0xffff);
    EXPECT_THAT(texts(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask)),
                ElementsAre("eth / vlan tpid 0x88a8 0x1"));
    EXPECT_THAT(texts(Rule()
                          .item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask)
                          .item(RTE_FLOW_ITEM_TYPE_VLAN)
                          .item(RTE_FLOW_ITEM_TYPE_IPV4)),
                ElementsAre("eth / vlan inner_type 0x800 tpid 0x88a8 0x1 / ipv4 version 0x4"));
    // Either kind of tag; for 802.1Q, verbs matches a bit of the TCI, with both values.
    eth = zeroed<rte_flow_item_eth>();
    mask = zeroed<rte_flow_item_eth>();
    eth.has_vlan = mask.has_vlan = 1;
    EXPECT_THAT(texts(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask)),
                ElementsAre("eth / vlan tci 0x0&0x1000 tpid 0x8100 0x1",
                            "eth / vlan tci 0x1000&0x1000 tpid 0x8100 0x1",
                            "eth / vlan tpid 0x88a8 0x1"));
    eth.has_vlan = 0;
    EXPECT_THAT(
        texts(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask).item(RTE_FLOW_ITEM_TYPE_IPV4)),
        ElementsAre("eth type 0x800 has_vlan 0x0 / ipv4 version 0x4"));
}

TEST(Items, OfTwoTagsTheOuterOneMayBeOfEitherKind) {
    EXPECT_THAT(texts(Rule().item(RTE_FLOW_ITEM_TYPE_VLAN).item(RTE_FLOW_ITEM_TYPE_VLAN)),
                ElementsAre("eth / vlan tpid 0x8100 0x1 / vlan tpid 0x8100 0x1",
                            "eth / vlan tpid 0x88a8 0x1 / vlan tpid 0x8100 0x1"));
    auto vlan = zeroed<rte_flow_item_vlan>();
    vlan.hdr.eth_proto = RTE_BE16(0x8100);
    auto mask = zeroed<rte_flow_item_vlan>();
    mask.hdr.eth_proto = RTE_BE16(0xffff);
    EXPECT_THAT(
        refused(Rule().item(RTE_FLOW_ITEM_TYPE_VLAN).item(RTE_FLOW_ITEM_TYPE_VLAN, &vlan, &mask))
            .what,
        HasSubstr("third tag"));
}

/// Metadata may stand anywhere: which tag an item means is told by the next header's.
TEST(Items, TagsAreCountedWithoutTheMetadataBetweenThem) {
    auto eth = zeroed<rte_flow_item_eth>(), mask = eth;
    eth.has_vlan = mask.has_vlan = 1;
    const rte_flow_item_meta meta{7};
    Rule rule = Rule()
                    .item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask)
                    .item(RTE_FLOW_ITEM_TYPE_META, &meta)
                    .item(RTE_FLOW_ITEM_TYPE_VLAN);
    EXPECT_THAT(texts(rule),
                ElementsAre("eth / vlan tci 0x0&0x1000 tpid 0x8100 0x1 / meta data 0x7",
                            "eth / vlan tci 0x1000&0x1000 tpid 0x8100 0x1 / meta data 0x7"));
    rule = Rule()
               .item(RTE_FLOW_ITEM_TYPE_VLAN)
               .item(RTE_FLOW_ITEM_TYPE_META, &meta)
               .item(RTE_FLOW_ITEM_TYPE_VLAN);
    EXPECT_THAT(texts(rule),
                ElementsAre("eth / vlan tpid 0x8100 0x1 / vlan tpid 0x8100 0x1 / meta data 0x7",
                            "eth / vlan tpid 0x88a8 0x1 / vlan tpid 0x8100 0x1 / meta data 0x7"));
}

TEST(Items, FragmentsByTheBitThatDevicesHave) {
    auto spec = zeroed<rte_flow_item_ipv4>(), mask = spec, last = spec;
    mask.hdr.fragment_offset = RTE_BE16(0x3fff);
    EXPECT_THAT(texts(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4, &spec, &mask)),
                ElementsAre("eth type 0x800 / ipv4 version 0x4 fragment_offset 0x0"));
    spec.hdr.fragment_offset = RTE_BE16(1);
    last.hdr.fragment_offset = RTE_BE16(0x3fff);
    EXPECT_THAT(texts(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4, &spec, &mask, &last)),
                ElementsAre("eth type 0x800 / ipv4 version 0x4 fragment_offset 0x1"));
    last.hdr.fragment_offset = RTE_BE16(2); // only some fragments: the engines' to refuse
    EXPECT_THAT(texts(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4, &spec, &mask, &last)),
                ElementsAre("eth type 0x800 / ipv4 version 0x4 fragment_offset 0x1&0x3fff",
                            "eth type 0x800 / ipv4 version 0x4 fragment_offset 0x2&0x3fff"));
    EXPECT_THAT(texts(Rule().item(RTE_FLOW_ITEM_TYPE_IPV6).item(RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT)),
                ElementsAre("eth type 0x86dd / ipv6 version 0x6 has_frag_ext 0x1"));
}

TEST(Items, TunnelsAreFoundByWhatCarriesThem) {
    EXPECT_THAT(texts(Rule()
                          .item(RTE_FLOW_ITEM_TYPE_IPV4)
                          .item(RTE_FLOW_ITEM_TYPE_UDP)
                          .item(RTE_FLOW_ITEM_TYPE_VXLAN)
                          .item(RTE_FLOW_ITEM_TYPE_IPV6)), // the inner Ethernet header is implied
                ElementsAre("eth type 0x800 / ipv4 version 0x4 proto 0x11 / udp dst 0x12b5 / vxlan"
                            " / eth type 0x86dd / ipv6 version 0x6"));
    EXPECT_THAT(
        texts(Rule()
                  .item(RTE_FLOW_ITEM_TYPE_IPV4)
                  .item(RTE_FLOW_ITEM_TYPE_GRE)
                  .item(RTE_FLOW_ITEM_TYPE_GRE_KEY)
                  .item(RTE_FLOW_ITEM_TYPE_IPV4)),
        ElementsAre("eth type 0x800 / ipv4 version 0x4 proto 0x2f / gre k bit 0x1 protocol 0x800"
                    " / gre_key / ipv4 version 0x4"));
    EXPECT_THAT(texts(Rule()
                          .item(RTE_FLOW_ITEM_TYPE_IPV6)
                          .item(RTE_FLOW_ITEM_TYPE_GRE)
                          .item(RTE_FLOW_ITEM_TYPE_GRE_KEY)
                          .item(RTE_FLOW_ITEM_TYPE_ETH)), // without any field to match
                ElementsAre("eth type 0x86dd / ipv6 version 0x6 proto 0x2f"
                            " / gre k bit 0x1 protocol 0x6558 / gre_key / eth"));
    EXPECT_THAT(
        texts(Rule()
                  .item(RTE_FLOW_ITEM_TYPE_IPV6)
                  .item(RTE_FLOW_ITEM_TYPE_UDP)
                  .item(RTE_FLOW_ITEM_TYPE_MPLS)),
        ElementsAre("eth type 0x86dd / ipv6 version 0x6 proto 0x11 / udp dst 0x19eb / mpls"));
}

TEST(ItemsRefused, OrderAndRepetition) {
    for (const auto& pattern :
         {Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_ETH),
          Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_IPV6),
          Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_ETH),
          Rule().item(RTE_FLOW_ITEM_TYPE_IPV6).item(RTE_FLOW_ITEM_TYPE_ICMP)}) {
        const FlowError error = refused(pattern);
        EXPECT_EQ(error.code, ENOTSUP);
        EXPECT_EQ(error.cause, &pattern.pattern()[1]);
        EXPECT_THAT(error.what, HasSubstr("is out of order"));
    }
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_UDP)).what,
                HasSubstr("it needs item ipv4 or ipv6 right before it, not eth"));
}

TEST(ItemsRefused, Ranges) {
    auto spec = zeroed<rte_flow_item_udp>();
    spec.hdr.dst_port = RTE_BE16(1000);
    auto last = spec;
    last.hdr.dst_port = RTE_BE16(65000);
    Rule rule;
    rule.item(RTE_FLOW_ITEM_TYPE_IPV4)
        .item<rte_flow_item_udp>(RTE_FLOW_ITEM_TYPE_UDP, &spec, nullptr, &last);
    const FlowError error = refused(rule);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_LAST);
    EXPECT_THAT(error.what, HasSubstr("item udp: range on field dst"));
    // Not a range: last equal to spec, zero, or different only outside the mask.
    last.hdr.dst_port = spec.hdr.dst_port;
    EXPECT_TRUE(translate_pattern(
        Rule()
            .item(RTE_FLOW_ITEM_TYPE_IPV4)
            .item<rte_flow_item_udp>(RTE_FLOW_ITEM_TYPE_UDP, &spec, nullptr, &last)
            .pattern()));
    last = zeroed<rte_flow_item_udp>();
    last.hdr.dgram_len = 5;
    EXPECT_TRUE(translate_pattern(
        Rule()
            .item(RTE_FLOW_ITEM_TYPE_IPV4)
            .item<rte_flow_item_udp>(RTE_FLOW_ITEM_TYPE_UDP, &spec, nullptr, &last)
            .pattern()));
}

/// Of the masked bits of a field, if they are its last ones.
TEST(Items, ARangeOfVlanIds) {
    auto spec = zeroed<rte_flow_item_vlan>(), mask = spec, last = spec;
    const auto ids = [&](uint16_t from, uint16_t to, uint16_t of) {
        spec.hdr.vlan_tci = rte_cpu_to_be_16(from);
        last.hdr.vlan_tci = rte_cpu_to_be_16(to);
        mask.hdr.vlan_tci = rte_cpu_to_be_16(of);
        return Rule().item(RTE_FLOW_ITEM_TYPE_VLAN, &spec, &mask, &last);
    };
    EXPECT_THAT(texts(ids(10, 11, 0xfff)), ElementsAre("eth / vlan tci 0xa&0xffe tpid 0x8100 0x1"));
    EXPECT_THAT(texts(ids(0xa007, 0x5008, 0xfff)),
                ElementsAre("eth / vlan tci 0x7&0xfff tpid 0x8100 0x1",
                            "eth / vlan tci 0x8&0xfff tpid 0x8100 0x1"));
    EXPECT_THAT(refused(ids(11, 10, 0xfff)).what, HasSubstr("ends before it starts"));
    for (const uint16_t gap : {0xefff, 0xff0, 0xe001}) // not one run to the end
        EXPECT_THAT(
            refused(ids(0x2010, 0x4020, gap)).what,
            HasSubstr("item vlan: range on field tci: ranges are of a whole field, or of "));
}

TEST(ItemsRefused, HalfGivenAndUnknownItems) {
    const auto mask = zeroed<rte_flow_item_eth>();
    EXPECT_THAT(
        refused(Rule().item<rte_flow_item_eth>(RTE_FLOW_ITEM_TYPE_ETH, nullptr, &mask)).what,
        HasSubstr("item eth: mask without spec"));
    const auto none = zeroed<rte_flow_item_any>();
    EXPECT_THAT(
        refused(Rule().item<rte_flow_item_any>(RTE_FLOW_ITEM_TYPE_ANY, nullptr, &none)).what,
        HasSubstr("item any: mask without spec"));
    const auto extension = zeroed<rte_flow_item_ipv6_frag_ext>();
    EXPECT_THAT(refused(Rule()
                            .item(RTE_FLOW_ITEM_TYPE_IPV6)
                            .item<rte_flow_item_ipv6_frag_ext>(RTE_FLOW_ITEM_TYPE_IPV6_FRAG_EXT,
                                                               nullptr, nullptr, &extension))
                    .what,
                HasSubstr("item ipv6_frag_ext: last without spec"));
    const FlowError unknown = refused(Rule().item(RTE_FLOW_ITEM_TYPE_PFCP));
    EXPECT_EQ(unknown.code, ENOTSUP);
    EXPECT_THAT(unknown.what, StartsWith("item pfcp is not supported: use any, void, eth, vlan"));
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_SCTP)).what, HasSubstr("with proto 132"));
    if (constexpr auto kPtype = compat::item_ptype(); kPtype != RTE_FLOW_ITEM_TYPE_END) { // 23.11
        EXPECT_THAT(refused(Rule().item(kPtype)).what,
                    StartsWith("item ptype is not supported: a packet type is a row of headers: "
                               "use their items"));
    }
    const rte_flow_item_any one{1}, two{2}, all{UINT32_MAX};
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_ANY, &two, &all)).what,
                HasSubstr("a number of headers cannot be matched"));
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_ANY, &one, &all, &two)).what,
                HasSubstr("a number of headers cannot be matched"));
    for (const rte_flow_item_any& no_range : {rte_flow_item_any{0}, one})
        EXPECT_TRUE(translate_pattern(
            Rule().item(RTE_FLOW_ITEM_TYPE_ANY, &one, &all, &no_range).pattern()));
    EXPECT_FALSE(translate_pattern(nullptr));
}

// A C enumeration may hold any int; UBSan follows the rules of C++.
#if defined(__has_feature)
#define WITH_UBSAN __has_feature(undefined_behavior_sanitizer)
#else
#define WITH_UBSAN 0
#endif
#if !WITH_UBSAN
TEST(ItemsRefused, TypesThatThisReleaseDoesNotKnow) {
    for (const int type : {INT_MIN, -1, 100000}) // a driver's own, or from another release
        EXPECT_THAT(refused(Rule().item(static_cast<rte_flow_item_type>(type))).what,
                    HasSubstr("no name for"));
}
#endif

} // namespace
} // namespace rawqp::test
