// SPDX-License-Identifier: BSD-3-Clause
// Actions that change packets: the device's commands, headers to put on, and what is refused.
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "tests/unit/flow/rule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class EditsTest : public testing::Test {
  protected:
    FakeDevice device{2};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    std::unique_ptr<Steering> steering;
    std::unique_ptr<FlowTable> table;
    rte_flow_error error{};

    EditsTest() {
        device.offer_mlx5_flows();
        steering = make_steering(device, qps);
        table = std::make_unique<FlowTable>(*steering, device.rx_queues);
        EXPECT_TRUE(table->start());
    }
    ~EditsTest() override {
        table->flush(nullptr);
        EXPECT_THAT(device.flows, IsEmpty());
        EXPECT_THAT(device.matchers, IsEmpty());
        EXPECT_THAT(device.flow_actions, IsEmpty());
        EXPECT_THAT(device.violations, IsEmpty());
    }
    rte_flow* create(const Rule& rule) {
        return table->create(&rule.attr, rule.pattern(), rule.actions(), &error);
    }
    /// What the rule's only flow action was created from.
    Bytes bytes_of(const Rule& rule) {
        rte_flow* const flow = create(rule);
        EXPECT_NE(flow, nullptr) << error.message;
        EXPECT_THAT(device.flow_actions, SizeIs(1));
        Bytes bytes = flow != nullptr ? device.flow_actions[0]->bytes : Bytes{};
        EXPECT_EQ(table->destroy(flow, &error), 0);
        return bytes;
    }
    std::string refused(const Rule& rule) {
        EXPECT_LT(table->validate(&rule.attr, rule.pattern(), rule.actions(), &error), 0);
        std::string text = error.message != nullptr ? error.message : "";
        EXPECT_EQ(create(rule), nullptr);
        EXPECT_EQ(text, error.message);
        return text;
    }
};

Rule udp() { return Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_UDP); }
Rule gre() { return Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(RTE_FLOW_ITEM_TYPE_GRE); }
Rule tunnel() { return udp().item(RTE_FLOW_ITEM_TYPE_VXLAN); }
Rule egress(Rule rule) {
    rule.attr.ingress = 0;
    rule.attr.egress = 1;
    return rule;
}

TEST_F(EditsTest, CommandsNameFieldAndLength) {
    const rte_flow_action_set_mac mac{{2, 0, 0, 0, 0x12, 0x34}};
    EXPECT_EQ(bytes_of(udp().action(RTE_FLOW_ACTION_TYPE_SET_MAC_DST, &mac).queue(0)),
              hex("1004 0000 02000000 1005 0010 00001234"));
    const rte_flow_action_set_ipv4 address{RTE_BE32(0x0a000001)};
    EXPECT_EQ(bytes_of(udp().action(RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC, &address).queue(0)),
              hex("1015 0000 0a000001"));
    const rte_flow_action_set_tp port{RTE_BE16(53)};
    EXPECT_EQ(bytes_of(udp().action(RTE_FLOW_ACTION_TYPE_SET_TP_DST, &port).queue(0)),
              hex("100c 0010 00000035")); // UDP, from the pattern
    EXPECT_EQ(bytes_of(udp().action(RTE_FLOW_ACTION_TYPE_DEC_TTL).queue(0)),
              hex("200a 0008 000000ff"));
    const rte_flow_action_set_dscp dscp{0x2e};
    EXPECT_EQ(bytes_of(udp().action(RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP, &dscp).queue(0)),
              hex("1006 0006 0000002e"));
    const rte_be32_t five = RTE_BE32(5);
    const Rule tcp = Rule().item(RTE_FLOW_ITEM_TYPE_IPV6).item(RTE_FLOW_ITEM_TYPE_TCP);
    EXPECT_EQ(bytes_of(Rule(tcp).action(RTE_FLOW_ACTION_TYPE_DEC_TCP_SEQ, &five).queue(0)),
              hex("2059 0000 fffffffb"));
    const rte_flow_action_of_set_vlan_vid vid{RTE_BE16(0xf123)};
    EXPECT_EQ(bytes_of(Rule()
                           .item(RTE_FLOW_ITEM_TYPE_VLAN)
                           .item(RTE_FLOW_ITEM_TYPE_IPV4)
                           .action(RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID, &vid)
                           .queue(0)),
              hex("1017 000c 00000123"));
}

TEST_F(EditsTest, ModifyFieldSetsAddsAndSubtracts) {
    rte_flow_action_modify_field conf{};
    conf.operation = RTE_FLOW_MODIFY_SUB;
    conf.dst.field = RTE_FLOW_FIELD_IPV4_TTL;
    conf.src.field = RTE_FLOW_FIELD_VALUE;
    conf.src.value[0] = 3;
    conf.width = 8;
    const auto with = [&] {
        return udp().action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf).queue(0);
    };
    EXPECT_EQ(bytes_of(with()), hex("200a 0008 000000fd"));
    conf.width = 4;
    EXPECT_THAT(refused(with()), HasSubstr("as a whole: use offset 0 and width 8"));
    conf.width = 8;
    conf.dst.level = 2;
    EXPECT_THAT(refused(with()), HasSubstr("level 2 of the destination: only fields of outermost "
                                           "headers (0 or 1) are changed and copied: take the "
                                           "tunnel off before"));
    conf.dst.level = 0;
    conf.dst.field = RTE_FLOW_FIELD_START;
    EXPECT_THAT(refused(with()), HasSubstr("no such destination"));
}

TEST_F(EditsTest, ModifyFieldLeavesTunnelHeadersAsTheyAre) {
    rte_flow_action_modify_field conf{};
    conf.operation = RTE_FLOW_MODIFY_SET;
    conf.width = 24;
    const auto with = [&] {
        return udp().action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf).queue(0);
    };
    for (const auto& [field, name] : {std::pair(RTE_FLOW_FIELD_VXLAN_VNI, "vxlan"),
                                      std::pair(RTE_FLOW_FIELD_GENEVE_VNI, "geneve"),
                                      std::pair(RTE_FLOW_FIELD_GTP_TEID, "gtp")}) {
        conf.dst.field = field;
        conf.src.field = RTE_FLOW_FIELD_VALUE;
        const std::string of_dst = refused(with());
        EXPECT_THAT(of_dst, HasSubstr(fmt::format("the destination is in the header of tunnel {}, "
                                                  "which is neither changed nor copied",
                                                  name)));
        EXPECT_THAT(of_dst, HasSubstr("take the tunnel off and put one with another number on"));
        conf.dst.field = RTE_FLOW_FIELD_META;
        conf.src.field = field;
        EXPECT_THAT(refused(with()),
                    HasSubstr(fmt::format("the source is in the header of tunnel {}", name)));
    }
}

/// The inner headers are the outermost ones by then.
TEST_F(EditsTest, ModifyFieldOfInnerHeadersComesAfterDecapsulation) {
    rte_flow_action_modify_field conf{};
    conf.operation = RTE_FLOW_MODIFY_SET;
    conf.dst.field = RTE_FLOW_FIELD_IPV4_TTL;
    conf.src.field = RTE_FLOW_FIELD_VALUE;
    conf.src.value[0] = 3;
    conf.width = 8;
    const auto inner = [&](bool taken_off) {
        Rule rule = udp()
                        .item(RTE_FLOW_ITEM_TYPE_VXLAN)
                        .item(RTE_FLOW_ITEM_TYPE_ETH)
                        .item(RTE_FLOW_ITEM_TYPE_IPV4);
        if (taken_off) rule.action(RTE_FLOW_ACTION_TYPE_VXLAN_DECAP);
        return rule.action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf).queue(0);
    };
    rte_flow* const made = create(inner(true));
    ASSERT_NE(made, nullptr) << error.message;
    EXPECT_TRUE(std::ranges::any_of(device.flow_actions, [](const auto& each) {
        return each->bytes == hex("100a 0008 00000003");
    }));
    EXPECT_EQ(table->destroy(made, &error), 0);
    conf.dst.level = 2;
    EXPECT_THAT(refused(inner(false)), HasSubstr("take the tunnel off before"));
}

/// A value has the format of its field, with bits numbered from the lowest one.
TEST_F(EditsTest, ModifyFieldSetsParts) {
    rte_flow_action_modify_field conf{};
    const auto part = [&](rte_flow_field_id field, uint32_t offset, uint32_t width,
                          const char* value) {
        const Bytes bytes = hex(value);
        conf.dst.field = field;
        conf.dst.offset = offset;
        conf.src.field = RTE_FLOW_FIELD_VALUE;
        std::ranges::copy(bytes, conf.src.value);
        conf.width = width;
        return udp().action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf).queue(0);
    };
    EXPECT_EQ(bytes_of(part(RTE_FLOW_FIELD_IPV4_TTL, 0, 4, "a5")), hex("100a 0004 00000005"));
    EXPECT_EQ(bytes_of(part(RTE_FLOW_FIELD_IPV4_DST, 8, 12, "c0a81234")),
              hex("1016 080c 00000812"));
    EXPECT_EQ(bytes_of(part(RTE_FLOW_FIELD_IPV4_DSCP, 5, 1, "20")), hex("1006 0501 00000001"));
    // Within one word of a longer field, and across two.
    EXPECT_EQ(bytes_of(part(RTE_FLOW_FIELD_MAC_DST, 0, 8, "0123456789ab")),
              hex("1005 0008 000000ab"));
    EXPECT_EQ(bytes_of(part(RTE_FLOW_FIELD_MAC_DST, 12, 12, "0123456789ab")),
              hex("1004 0008 00000067 1005 0c04 00000008"));
    EXPECT_EQ(bytes_of(part(RTE_FLOW_FIELD_MAC_SRC, 16, 32, "0123456789ab")),
              hex("1001 0000 01234567"));
    conf.dst.level = 1; // the tag's index; its value is in CPU order
    EXPECT_EQ(bytes_of(part(RTE_FLOW_FIELD_TAG, 8, 16, "78563412")), hex("1054 0810 00003456"));
    conf.dst.level = 0;
    EXPECT_THAT(refused(part(RTE_FLOW_FIELD_IPV4_DST, 1, 32, "")),
                HasSubstr("the destination has 32 bits, and not 32 from bit 1 on"));
    EXPECT_THAT(refused(part(RTE_FLOW_FIELD_IPV4_DST, 0, 0, "")), HasSubstr("and not 0"));
    EXPECT_THAT(refused(part(RTE_FLOW_FIELD_MARK, 0, 16, "")),
                HasSubstr("as a whole: use offset 0 and width 24"));
    conf.operation = RTE_FLOW_MODIFY_ADD;
    EXPECT_THAT(refused(part(RTE_FLOW_FIELD_IPV4_TTL, 0, 4, "")),
                HasSubstr("as a whole: use offset 0 and width 8"));
}

TEST_F(EditsTest, ModifyFieldCopies) {
    rte_flow_action_modify_field conf{};
    const auto copy = [&](rte_flow_field_id to, uint32_t to_offset, rte_flow_field_id from,
                          uint32_t from_offset, uint32_t width) {
        conf.dst.field = to;
        conf.dst.offset = to_offset;
        conf.src.field = from;
        conf.src.offset = from_offset;
        conf.width = width;
        return udp().action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf).queue(0);
    };
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_UDP_PORT_SRC, 0, RTE_FLOW_FIELD_UDP_PORT_DST, 0, 16)),
              hex("300c 0010 000b 0000"));
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_MAC_DST, 0, RTE_FLOW_FIELD_MAC_SRC, 0, 48)),
              hex("3001 0000 0004 0000 3002 0010 0005 0000"));
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_IPV4_SRC, 8, RTE_FLOW_FIELD_IPV4_DST, 16, 5)),
              hex("3016 1005 0015 0800"));
    conf.dst.level = 1; // the tag's index
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_TAG, 4, RTE_FLOW_FIELD_IPV4_DST, 0, 8)),
              hex("3016 0008 0054 0400"));
    conf.dst.level = 0;
    // To the register that rules match, and to the one that the device reports.
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_META, 0, RTE_FLOW_FIELD_IPV4_DST, 0, 32)),
              hex("3016 0000 0052 0000 3016 0000 0050 0000"));
    // No command crosses a word boundary in either field.
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_MAC_DST, 0, RTE_FLOW_FIELD_MAC_SRC, 0, 32)),
              hex("3001 0010 0004 0000 3002 0010 0005 0000"));
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_MAC_DST, 0, RTE_FLOW_FIELD_MAC_SRC, 8, 48 - 8)),
              hex("3001 0818 0004 0000 3001 0008 0005 0800 3002 0808 0005 0000"));
    EXPECT_EQ(bytes_of(copy(RTE_FLOW_FIELD_IPV4_SRC, 0, RTE_FLOW_FIELD_MAC_SRC, 0, 32)),
              hex("3001 0010 0015 1000 3002 0010 0015 0000"));
    EXPECT_THAT(refused(copy(RTE_FLOW_FIELD_META, 0, RTE_FLOW_FIELD_UDP_PORT_DST, 1, 16)),
                HasSubstr("the source has 16 bits, and not 16 from bit 1 on"));
    EXPECT_THAT(refused(copy(RTE_FLOW_FIELD_UDP_PORT_DST, 0, RTE_FLOW_FIELD_META, 0, 0)),
                HasSubstr("the destination has 16 bits, and not 0"));
    EXPECT_THAT(refused(copy(RTE_FLOW_FIELD_META, UINT32_MAX, RTE_FLOW_FIELD_TAG, 0, 2)),
                HasSubstr("the destination has 32 bits"));
    EXPECT_THAT(refused(copy(RTE_FLOW_FIELD_META, 0, RTE_FLOW_FIELD_TCP_PORT_DST, 0, 16)),
                HasSubstr("the pattern has no item tcp"));
    EXPECT_THAT(refused(copy(RTE_FLOW_FIELD_MARK, 0, RTE_FLOW_FIELD_TAG, 0, 24)),
                HasSubstr("a mark is the rule's own"));
    EXPECT_THAT(refused(copy(RTE_FLOW_FIELD_TAG, 0, RTE_FLOW_FIELD_START, 0, 24)),
                HasSubstr("no such source"));
    conf.operation = RTE_FLOW_MODIFY_ADD;
    EXPECT_THAT(refused(copy(RTE_FLOW_FIELD_UDP_PORT_SRC, 0, RTE_FLOW_FIELD_UDP_PORT_DST, 0, 16)),
                HasSubstr("copied, not added"));
}

// Its checksum covers the addresses, and devices do not update it.
TEST_F(EditsTest, AddressesOfIcmp6AreNotChanged) {
    const rte_flow_action_set_ipv6 address{};
    rte_flow_action_modify_field modify{};
    modify.operation = RTE_FLOW_MODIFY_SET;
    modify.dst.field = RTE_FLOW_FIELD_IPV6_DST;
    modify.src.field = RTE_FLOW_FIELD_VALUE;
    modify.width = 128;
    const auto changed = [&](const Rule& rule) {
        return Rule(rule).action(RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC, &address).queue(0);
    };
    const Rule ipv6 = Rule().item(RTE_FLOW_ITEM_TYPE_IPV6);
    const Rule icmp6 = Rule(ipv6).item(RTE_FLOW_ITEM_TYPE_ICMP6);
    EXPECT_THAT(refused(changed(icmp6)), HasSubstr("ICMPv6 would get a wrong checksum"));
    EXPECT_THAT(refused(Rule(icmp6).action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &modify).queue(0)),
                HasSubstr("ICMPv6 would get a wrong checksum"));
    EXPECT_NE(create(changed(ipv6)), nullptr);
    EXPECT_NE(create(Rule(icmp6).action(RTE_FLOW_ACTION_TYPE_DEC_TTL).queue(0)), nullptr);
}

TEST_F(EditsTest, AHeaderToPutOnIsMadeOfItems) {
    rte_flow_item_eth eth{};
    eth.hdr.dst_addr = {{2, 0, 0, 0, 0, 1}};
    eth.hdr.src_addr = {{2, 0, 0, 0, 0, 2}};
    rte_flow_item_ipv4 ipv4{};
    ipv4.hdr.src_addr = RTE_BE32(0x0a000001);
    ipv4.hdr.dst_addr = RTE_BE32(0x0a000002);
    rte_flow_item_vxlan vxlan{};
    vxlan.hdr.vx_vni = RTE_BE32(0x12345600);
    Rule header = Rule()
                      .item(RTE_FLOW_ITEM_TYPE_ETH, &eth)
                      .item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4)
                      .item(RTE_FLOW_ITEM_TYPE_UDP)
                      .item(RTE_FLOW_ITEM_TYPE_VXLAN, &vxlan);
    rte_flow_action_vxlan_encap conf{};
    conf.definition = const_cast<rte_flow_item*>(header.pattern());
    const Rule rule = egress(udp().action(RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP, &conf));
    EXPECT_EQ(bytes_of(rule), hex("020000000001 020000000002 0800"
                                  "45000000 00000000 40110000 0a000001 0a000002"
                                  "0000 12b5 0000 0000 0800000012345600"));
    // Explicit values for the next header are kept.
    eth.hdr.ether_type = RTE_BE16(RTE_ETHER_TYPE_QINQ);
    rte_flow_item_udp linux_vxlan{};
    linux_vxlan.hdr.dst_port = RTE_BE16(8472);
    header = Rule()
                 .item(RTE_FLOW_ITEM_TYPE_ETH, &eth)
                 .item(RTE_FLOW_ITEM_TYPE_VLAN)
                 .item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4)
                 .item(RTE_FLOW_ITEM_TYPE_UDP, &linux_vxlan)
                 .item(RTE_FLOW_ITEM_TYPE_VXLAN, &vxlan);
    conf.definition = const_cast<rte_flow_item*>(header.pattern());
    EXPECT_EQ(bytes_of(egress(udp().action(RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP, &conf))),
              hex("020000000001 020000000002 88a8 0000 0800"
                  "45000000 00000000 40110000 0a000001 0a000002"
                  "0000 2118 0000 0000 0800000012345600"));
    Rule wrong = Rule().item(RTE_FLOW_ITEM_TYPE_IPV4);
    conf.definition = const_cast<rte_flow_item*>(wrong.pattern());
    EXPECT_THAT(refused(egress(udp().action(RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP, &conf))),
                HasSubstr("item ipv4 is out of order: a header to put on starts with eth"));
    for (const Rule& half : {Rule(), Rule().item(RTE_FLOW_ITEM_TYPE_ETH),
                             Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4)}) {
        conf.definition = const_cast<rte_flow_item*>(half.pattern());
        EXPECT_THAT(refused(egress(udp().action(RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP, &conf))),
                    HasSubstr("a header to put on ends with the tunnel"));
    }
}

TEST_F(EditsTest, TunnelsComeOffAndGoOn) {
    const auto kind_of = [&](const Rule& rule) {
        rte_flow* const flow = create(rule);
        EXPECT_NE(flow, nullptr) << error.message;
        const auto kind = flow != nullptr ? device.flow_actions[0]->reformat : std::nullopt;
        table->flush(nullptr);
        return kind.value_or(static_cast<mlx5dv_flow_action_packet_reformat_type>(99));
    };
    std::vector<uint8_t> l2(14, 2), l2_tagged(18, 2), outer(50, 3);
    rte_flow_action_raw_encap put_l2{l2.data(), nullptr, l2.size()};
    rte_flow_action_raw_encap put_outer{outer.data(), nullptr, outer.size()};
    rte_flow_action_raw_decap take_l2{l2.data(), l2.size()};
    rte_flow_action_raw_decap take_outer{outer.data(), outer.size()};
    rte_flow_action_raw_decap take_tagged{l2_tagged.data(), l2_tagged.size()};
    constexpr auto kEncap = RTE_FLOW_ACTION_TYPE_RAW_ENCAP, kDecap = RTE_FLOW_ACTION_TYPE_RAW_DECAP;
    EXPECT_EQ(kind_of(tunnel().action(RTE_FLOW_ACTION_TYPE_VXLAN_DECAP).queue(0)),
              MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2);
    EXPECT_EQ(kind_of(tunnel().action(kDecap, &take_outer).action(kEncap, &put_l2).queue(0)),
              MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2);
    EXPECT_EQ(kind_of(egress(udp().action(kEncap, &put_outer))),
              MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL);
    for (const auto* const take : {&take_l2, &take_tagged})
        EXPECT_EQ(kind_of(egress(udp().action(kDecap, take).action(kEncap, &put_outer))),
                  MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL);

    EXPECT_THAT(refused(udp().action(kEncap, &put_outer).queue(0)),
                HasSubstr("use an egress rule"));
    EXPECT_THAT(refused(egress(tunnel().action(kDecap, &take_outer))),
                HasSubstr("use an ingress rule"));
    EXPECT_THAT(refused(udp().action(kDecap, &take_outer).queue(0)), HasSubstr("has no tunnel"));
    EXPECT_THAT(refused(egress(udp().action(kDecap, &take_l2))), HasSubstr("add raw_encap"));
    EXPECT_THAT(refused(gre().item(RTE_FLOW_ITEM_TYPE_IPV4).action(kDecap, &take_outer).queue(0)),
                HasSubstr("what the tunnel carries has no Ethernet header"));
    EXPECT_EQ(kind_of(gre()
                          .item(RTE_FLOW_ITEM_TYPE_IPV4)
                          .action(kDecap, &take_outer)
                          .action(kEncap, &put_l2)
                          .queue(0)),
              MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2);
    for (const Rule& may_be : {gre(), gre().item(RTE_FLOW_ITEM_TYPE_ETH)})
        EXPECT_EQ(kind_of(Rule(may_be).action(kDecap, &take_outer).queue(0)),
                  MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2);
    EXPECT_THAT(refused(egress(udp().action(kDecap, &take_l2).action(kEncap, &put_l2))),
                HasSubstr("are both Ethernet"));
    EXPECT_THAT(refused(egress(udp().action(kEncap, &put_l2))),
                HasSubstr("a header of 14 bytes is Ethernet's alone"));
}

TEST_F(EditsTest, AnActionTakesTheTunnelOffThatItIsNamedAfter) {
    constexpr auto kVxlan = RTE_FLOW_ACTION_TYPE_VXLAN_DECAP,
                   kNvgre = RTE_FLOW_ACTION_TYPE_NVGRE_DECAP;
    const auto of = [](rte_flow_item_type type) {
        return Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).item(type);
    };
    const auto gpe = [] { return udp().item(RTE_FLOW_ITEM_TYPE_VXLAN_GPE); };
    EXPECT_NE(create(tunnel().action(kVxlan).queue(0)), nullptr) << error.message;
    EXPECT_NE(create(of(RTE_FLOW_ITEM_TYPE_NVGRE).action(kNvgre).queue(0)), nullptr)
        << error.message;
    for (const Rule& other : {of(RTE_FLOW_ITEM_TYPE_NVGRE), gre(), gpe()})
        EXPECT_THAT(refused(Rule(other).action(kVxlan).queue(0)),
                    HasSubstr("action vxlan_decap: the tunnel of the pattern is another one"));
    for (const Rule& other : {tunnel(), gre()})
        EXPECT_THAT(refused(Rule(other).action(kNvgre).queue(0)),
                    HasSubstr("action nvgre_decap: the tunnel of the pattern is another one"));
}

TEST_F(EditsTest, ChangesStandBetweenWhatComesOffAndWhatGoesOn) {
    std::vector<uint8_t> outer(50, 3);
    rte_flow_action_raw_encap put{outer.data(), nullptr, outer.size()};
    const rte_flow_action_set_ttl ttl{9};
    const rte_flow_action_set_tag tag{5, 0xff, 0};
    constexpr auto kTtl = RTE_FLOW_ACTION_TYPE_SET_TTL, kTag = RTE_FLOW_ACTION_TYPE_SET_TAG,
                   kDecap = RTE_FLOW_ACTION_TYPE_VXLAN_DECAP,
                   kEncap = RTE_FLOW_ACTION_TYPE_RAW_ENCAP;
    const auto inner = [] {
        return tunnel().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4);
    };
    EXPECT_NE(create(inner().action(kDecap).action(kTtl, &ttl).queue(0)), nullptr) << error.message;
    EXPECT_NE(create(egress(udp().action(kTtl, &ttl).action(kEncap, &put))), nullptr)
        << error.message;
    EXPECT_THAT(refused(inner().action(kTtl, &ttl).action(kDecap).queue(0)),
                HasSubstr("put it before the actions that do so"));
    EXPECT_THAT(refused(egress(udp().action(kEncap, &put).action(kTtl, &ttl))),
                HasSubstr("put it before raw_encap"));
    // Tags do not belong to any header.
    EXPECT_NE(create(tunnel().action(kTag, &tag).action(kDecap).queue(0)), nullptr)
        << error.message;
}

/// The outer headers of the pattern are gone.
TEST_F(EditsTest, AfterATunnelHasComeOffItsInnerHeadersChange) {
    const rte_flow_action_set_ttl ttl{9};
    const rte_flow_action_set_tp port{RTE_BE16(53)};
    const rte_flow_action_set_mac mac{{2, 0, 0, 0, 0, 1}};
    constexpr auto kDecap = RTE_FLOW_ACTION_TYPE_VXLAN_DECAP, kTtl = RTE_FLOW_ACTION_TYPE_SET_TTL,
                   kPort = RTE_FLOW_ACTION_TYPE_SET_TP_DST, kMac = RTE_FLOW_ACTION_TYPE_SET_MAC_DST;
    EXPECT_THAT(refused(tunnel().action(kDecap).action(kTtl, &ttl).queue(0)),
                HasSubstr("no item ipv4 or ipv6 inside the tunnel: add it"));
    EXPECT_NE(create(tunnel().action(kDecap).action(kMac, &mac).queue(0)), nullptr)
        << error.message;
    table->flush(nullptr);
    const Rule inner = tunnel()
                           .item(RTE_FLOW_ITEM_TYPE_ETH)
                           .item(RTE_FLOW_ITEM_TYPE_IPV6)
                           .item(RTE_FLOW_ITEM_TYPE_TCP);
    ASSERT_NE(create(Rule(inner).action(kDecap).action(kTtl, &ttl).action(kPort, &port).queue(0)),
              nullptr)
        << error.message;
    ASSERT_THAT(device.flow_actions, SizeIs(2)); // hop limit and TCP port; decapsulation
    EXPECT_EQ(device.flow_actions.front()->bytes, hex("1047 0008 00000009 1009 0010 00000035"));
}

TEST_F(EditsTest, RulesShareWhatTheyChangeAlike) {
    const rte_flow_action_set_ttl ttl{9};
    for (const uint16_t port : {1, 2, 3}) {
        rte_flow_item_udp spec{};
        spec.hdr.dst_port = rte_cpu_to_be_16(port);
        ASSERT_NE(create(Rule()
                             .item(RTE_FLOW_ITEM_TYPE_IPV4)
                             .item(RTE_FLOW_ITEM_TYPE_UDP, &spec)
                             .action(RTE_FLOW_ACTION_TYPE_SET_TTL, &ttl)
                             .queue(1)),
                  nullptr)
            << error.message;
    }
    EXPECT_THAT(device.flow_actions, SizeIs(1));
    EXPECT_THAT(device.matchers, SizeIs(1));
    table->stop();
    EXPECT_THAT(device.flow_actions, IsEmpty());
    ASSERT_TRUE(table->start());
    EXPECT_THAT(device.flow_actions, SizeIs(1));
}

TEST_F(EditsTest, EgressRulesHaveNoQueue) {
    Rule rule = egress(udp().action(RTE_FLOW_ACTION_TYPE_DEC_TTL));
    rule.attr.priority = 15;
    ASSERT_NE(create(rule), nullptr) << error.message;
    EXPECT_EQ(device.flows[0]->qp, nullptr);
    EXPECT_EQ(device.matchers[0]->table, MLX5DV_FLOW_TABLE_TYPE_NIC_TX);
    EXPECT_EQ(device.matchers[0]->level, 15);
    EXPECT_EQ(device.flow_actions[0]->table, MLX5DV_FLOW_TABLE_TYPE_NIC_TX);
    // The same match for received packets is another rule.
    EXPECT_NE(create(udp().queue(0)), nullptr) << error.message;
    EXPECT_THAT(refused(egress(udp().queue(0))), HasSubstr("action queue is for received packets"));
    EXPECT_THAT(refused(egress(udp().mark(1))), HasSubstr("action mark is for received packets"));
    rule.attr.priority = 16;
    EXPECT_THAT(refused(rule), HasSubstr("the largest of an egress rule of group 0 is 15"));
    rule.attr.ingress = 1;
    EXPECT_THAT(refused(rule), HasSubstr("two directions"));
}

TEST_F(EditsTest, WhatCannotBeChanged) {
    const rte_flow_action_set_tp port{RTE_BE16(53)};
    EXPECT_THAT(refused(Rule()
                            .item(RTE_FLOW_ITEM_TYPE_IPV4)
                            .action(RTE_FLOW_ACTION_TYPE_SET_TP_DST, &port)
                            .queue(0)),
                HasSubstr("action set_tp_dst: the pattern has no item tcp or udp"));
    EXPECT_THAT(refused(udp().action(RTE_FLOW_ACTION_TYPE_SET_TP_DST).queue(0)),
                HasSubstr("configuration is missing"));
    EXPECT_THAT(
        refused(udp().action(RTE_FLOW_ACTION_TYPE_DEC_TTL).action(RTE_FLOW_ACTION_TYPE_DROP)),
        HasSubstr("changing packets that are dropped"));
    const auto verbs = make_steering(device, qps, FlowEngine::verbs);
    FlowTable plain(*verbs, device.rx_queues);
    const Rule rule = udp().action(RTE_FLOW_ACTION_TYPE_DEC_TTL).queue(0);
    EXPECT_LT(plain.validate(&rule.attr, rule.pattern(), rule.actions(), &error), 0);
    EXPECT_THAT(error.message, HasSubstr("verbs flow specs have no actions that change packets"));
}

/// Larger values would be truncated to the device's fields.
TEST_F(EditsTest, WhatIsTooMuchIsRefused) {
    const std::vector<uint8_t> header(2000, 3);
    const auto wrapped = [&](size_t size) {
        rte_flow_action_raw_encap put{const_cast<uint8_t*>(header.data()), nullptr, size};
        return egress(udp().action(RTE_FLOW_ACTION_TYPE_RAW_ENCAP, &put));
    };
    EXPECT_THAT(bytes_of(wrapped(1023)), SizeIs(1023));
    for (const size_t size : {size_t{1024}, SIZE_MAX})
        EXPECT_THAT(refused(wrapped(size)), HasSubstr("the device takes at most 1023"));

    // Each run of bits takes a command.
    const auto changes = [](uint32_t last_mask) {
        rte_flow_action_set_tag set{5, 0x55555555, 0};
        Rule rule = udp();
        for (size_t i = 0; i < 15; ++i)
            rule.action(RTE_FLOW_ACTION_TYPE_SET_TAG, &set);
        set.mask = last_mask;
        return rule.action(RTE_FLOW_ACTION_TYPE_SET_TAG, &set).queue(0);
    };
    constexpr size_t kCommand = 8;
    EXPECT_THAT(bytes_of(changes(0x05555555)), SizeIs(kCommand * 254));
    EXPECT_THAT(refused(changes(0x15555555)), HasSubstr("by 255 commands"));
}

TEST_F(EditsTest, AFailureAtAnyCallLeavesNothing) {
    std::vector<uint8_t> l2(14, 2);
    rte_flow_action_raw_encap put{l2.data(), nullptr, l2.size()};
    const Rule rule = tunnel()
                          .item(RTE_FLOW_ITEM_TYPE_ETH)
                          .item(RTE_FLOW_ITEM_TYPE_IPV4)
                          .action(RTE_FLOW_ACTION_TYPE_VXLAN_DECAP)
                          .action(RTE_FLOW_ACTION_TYPE_DEC_TTL)
                          .action(RTE_FLOW_ACTION_TYPE_RAW_ENCAP, &put)
                          .queue(0);
    ASSERT_EQ(table->validate(&rule.attr, rule.pattern(), rule.actions(), &error), 0);
    int failures = 0;
    for (int nth = 1;; ++nth) {
        device.fail_call(nth, ENOMEM);
        if (create(rule) != nullptr) break;
        ++failures;
        EXPECT_THAT(device.flow_actions, IsEmpty());
        EXPECT_THAT(device.matchers, IsEmpty());
        EXPECT_EQ(qps.size(), 0u);
    }
    EXPECT_EQ(failures, 6); // table, QP, matcher, two actions, flow
}

} // namespace
} // namespace rawqp::test
