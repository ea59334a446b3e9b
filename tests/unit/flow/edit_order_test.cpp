// SPDX-License-Identifier: BSD-3-Clause
// The device has an order of its own: a tunnel comes off, then a tag, fields change, a tag goes on,
// then a header. Rules whose actions need another order are refused.
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;

class EditOrderTest : public TemplateTest {
  protected:
    EditOrderTest() : TemplateTest(FlowEngine::mlx5) {
        configure(2);
        start();
    }

    static constexpr auto kPop = RTE_FLOW_ACTION_TYPE_OF_POP_VLAN,
                          kDecap = RTE_FLOW_ACTION_TYPE_VXLAN_DECAP;

    static Rule tagged(int tags = 1) {
        Rule rule;
        for (; tags > 0; --tags)
            rule.item(RTE_FLOW_ITEM_TYPE_VLAN);
        return rule.item(RTE_FLOW_ITEM_TYPE_IPV4);
    }
    static Rule tunnel(bool outer_tag, bool inner_tag) {
        Rule rule = tagged(outer_tag ? 1 : 0);
        rule.item(RTE_FLOW_ITEM_TYPE_UDP).item(RTE_FLOW_ITEM_TYPE_VXLAN);
        rule.item(RTE_FLOW_ITEM_TYPE_ETH);
        return inner_tag ? rule.item(RTE_FLOW_ITEM_TYPE_VLAN) : rule;
    }
    static Rule sent(Rule rule) {
        rule.attr.ingress = 0;
        rule.attr.egress = 1;
        return rule;
    }
    static Rule& push(Rule& rule) {
        const rte_flow_action_of_push_vlan type{RTE_BE16(RTE_ETHER_TYPE_VLAN)};
        return rule.action(RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN, &type);
    }
    static Rule& set_id(Rule& rule) {
        const rte_flow_action_of_set_vlan_vid id{RTE_BE16(5)};
        return rule.action(RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID, &id);
    }
    /// Sets tag 0 to the id of the packet's VLAN, or the id to the tag.
    static Rule& copy(Rule& rule, bool to_tag) {
        rte_flow_action_modify_field conf{};
        conf.dst.field = to_tag ? RTE_FLOW_FIELD_TAG : RTE_FLOW_FIELD_VLAN_ID;
        conf.src.field = to_tag ? RTE_FLOW_FIELD_VLAN_ID : RTE_FLOW_FIELD_TAG;
        conf.width = kVlanIdBits;
        return rule.action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf);
    }
    Rule& encap(Rule& rule) {
        const rte_flow_action_raw_encap conf{header.data(), nullptr, header.size()};
        return rule.action(RTE_FLOW_ACTION_TYPE_RAW_ENCAP, &conf);
    }
    void accepts(const Rule& rule) {
        EXPECT_EQ(validate(rule), 0) << error.message;
        rte_flow* const made = create(rule);
        EXPECT_NE(made, nullptr) << error.message;
        EXPECT_EQ(table.destroy(made, &error), 0);
    }

    std::vector<uint8_t> header = std::vector<uint8_t>(50, 3);
};

TEST_F(EditOrderTest, TagsGoOnAndOffBeforeAHeaderGoesOn) {
    constexpr auto* kFirst = "put it before raw_encap";
    Rule before = sent(tagged()), after = before, popped = before, named = before;
    accepts(encap(set_id(push(before))));
    EXPECT_THAT(refused(push(encap(after))), HasSubstr(kFirst));
    EXPECT_THAT(refused(encap(popped).action(kPop)), HasSubstr(kFirst));
    EXPECT_THAT(refused(set_id(encap(push(named)))), HasSubstr(kFirst));
}

TEST_F(EditOrderTest, TagsGoOnAndOffAfterATunnelHasComeOff) {
    constexpr auto* kFirst = "before tags go on and off: put it before";
    Rule before = tunnel(true, true);
    EXPECT_THAT(refused(before.action(kPop).action(kDecap).queue(1)), HasSubstr(kFirst));
    Rule pushed = tunnel(false, true);
    EXPECT_THAT(refused(push(pushed).action(kDecap).queue(1)), HasSubstr(kFirst));
    accepts(tunnel(false, true).action(kDecap).action(kPop).queue(1));
    Rule after = tunnel(false, false);
    accepts(push(after.action(kDecap)).queue(1));
}

TEST_F(EditOrderTest, ATagThatComesOffIsThatOfWhatIsLeft) {
    EXPECT_THAT(refused(tunnel(true, false).action(kDecap).action(kPop).queue(1)),
                HasSubstr("no item vlan inside the tunnel"));
    EXPECT_THAT(refused(tunnel(false, true).action(kPop).queue(1)), HasSubstr("no item vlan: add"));
}

TEST_F(EditOrderTest, AnIdIsChangedAndCopiedAfterATagHasComeOff) {
    constexpr auto* kLater = "action of_pop_vlan: the device takes a tag off before it changes";
    for (const bool to_tag : {false, true}) {
        Rule copied = tagged(), gone = tagged().action(kPop), second = tagged(2).action(kPop);
        EXPECT_THAT(refused(copy(copied, to_tag).action(kPop).queue(1)), HasSubstr(kLater));
        EXPECT_THAT(refused(copy(gone, to_tag).queue(1)), HasSubstr("the tag is off by then"));
        accepts(copy(second, to_tag).queue(1));
    }
    Rule set = tagged(2);
    EXPECT_THAT(refused(set_id(set).action(kPop).queue(1)), HasSubstr(kLater));
}

TEST_F(EditOrderTest, AnIdIsChangedAndCopiedBeforeATagGoesOn) {
    for (const bool to_tag : {false, true}) {
        Rule before = tagged(), after = tagged();
        accepts(push(copy(before, to_tag)).queue(1));
        EXPECT_THAT(refused(copy(push(after), to_tag).queue(1)),
                    HasSubstr("before it pushes another one"));
    }
}

/// As OpenFlow says, where the rule knows that tag.
TEST_F(EditOrderTest, APushedTagStartsAsTheOutermostOne) {
    auto spec = zeroed<rte_flow_item_vlan>(), mask = spec, last = spec;
    const auto tag = [&](uint16_t tci, uint16_t of) {
        spec.hdr.vlan_tci = rte_cpu_to_be_16(tci);
        mask.hdr.vlan_tci = rte_cpu_to_be_16(of);
        return Rule().item(RTE_FLOW_ITEM_TYPE_VLAN, &spec, &mask);
    };
    const auto pushes = [&](Rule rule, const char* tci) {
        rte_flow* const made = create(rule.queue(1));
        ASSERT_NE(made, nullptr) << error.message;
        EXPECT_THAT(dump(made), HasSubstr(std::string("tag ") + tci + " put on"));
        EXPECT_EQ(table.destroy(made, &error), 0);
    };
    Rule rule = tag(0xa007, 0xefff);
    pushes(push(rule), "0xa007");
    rule = tag(0xa007, 0xefff);
    pushes(set_id(push(rule)), "0xa005");
    rule = tag(0xa007, 0xefff);
    pushes(push(set_id(rule)), "0xa005");
    rule = tag(0xa007, 0x0fff);
    pushes(push(rule), "0x7");
    rule = tag(0xa007, 0xe00f);
    pushes(push(rule), "0xa000");
    rule = tag(0xa007, 0xefff);
    pushes(push(copy(rule, false)), "0xa000"); // copied from a tag, whatever that is
    rule = tag(0xa007, 0xefff).action(kPop);
    pushes(push(rule), "0x0"); // there is none by then
    rule = tag(0xa007, 0xefff).item(RTE_FLOW_ITEM_TYPE_VLAN).action(kPop);
    pushes(push(rule), "0x0"); // another one is outermost by then
    last.hdr.vlan_tci = RTE_BE16(8);
    mask.hdr.vlan_tci = RTE_BE16(0xfff);
    rule = Rule().item(RTE_FLOW_ITEM_TYPE_VLAN, &spec, &mask, &last);
    pushes(push(rule), "0x0"); // of two ids
}

/// The hash is that of what is left. Its fields are those of the headers that the pattern has
/// inside the tunnel, however the rule comes by its rss.
TEST_F(EditOrderTest, WhatHasComeOffIsNotHashed) {
    constexpr auto* kInner = "table of 2, by IPv6 source, IPv6 destination, TCP source port";
    constexpr uint64_t kTypes = RTE_ETH_RSS_NONFRAG_IPV6_TCP;
    const auto tcp6 = [] {
        return tunnel(false, false).item(RTE_FLOW_ITEM_TYPE_IPV6).item(RTE_FLOW_ITEM_TYPE_TCP);
    };
    const Rule rule = tcp6().action(kDecap).rss({0, 1}, kTypes);
    rte_flow* made = create(rule);
    ASSERT_NE(made, nullptr) << error.message;
    EXPECT_THAT(dump(made), HasSubstr(kInner));
    EXPECT_EQ(table.destroy(made, &error), 0);

    auto* const of =
        table_of(pattern_of(tcp6()), actions_of(rule, Rule().action(kDecap).rss({}, 0)), 1);
    ASSERT_NE(of, nullptr) << error.message;
    made = enqueue(of, rule);
    ASSERT_NE(made, nullptr) << error.message;
    EXPECT_THAT(dump(made), HasSubstr(kInner));
    EXPECT_EQ(table.destroy(made, &error), 0);
    EXPECT_EQ(table.destroy(of, &error), 0);

    const Rule one = Rule().rss({0}), two = Rule().rss({0, 1}, kTypes);
    rte_flow_indir_action_conf ingress{};
    ingress.ingress = 1;
    auto* const shared = table.share(&ingress, one.actions(), &error);
    ASSERT_NE(shared, nullptr) << error.message;
    made = create(tcp6().action(kDecap).indirect(shared));
    ASSERT_NE(made, nullptr) << error.message;
    ASSERT_EQ(table.update_shared(shared, two.actions(), &error), 0) << error.message;
    EXPECT_THAT(dump(made), HasSubstr(kInner));
    EXPECT_EQ(table.destroy(made, &error), 0);
    EXPECT_EQ(table.unshare(shared, &error), 0);
}

} // namespace
} // namespace rawqp::test
