// SPDX-License-Identifier: BSD-3-Clause
// Which attribute, item or action a refusal names.
#include "tests/unit/flow/flow_table.hpp"

namespace rawqp::test {
namespace {

class RefusalsTest : public FlowTableTest {
  protected:
    static Rule ipv4() { return Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4); }
    /// Its refusal names this one of its actions.
    void names(const Rule& rule, size_t action) {
        const std::string text = refused(rule);
        EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ACTION) << text;
        EXPECT_EQ(error.cause, &rule.actions()[action]) << text;
    }
};

TEST_F(RefusalsTest, NameTheActionThatTheEngineLacks) {
    const std::array<uint8_t, 6> mac{2, 0, 0, 0, 0, 9};
    const Rule copies = Rule().queue(1);
    const rte_flow_action_sample sample{1, copies.actions()};
    const rte_flow_action_jump jump{1};
    device.offers_counters = true;
    const Rule counting = ipv4().action(RTE_FLOW_ACTION_TYPE_COUNT);
    names(Rule(counting).queue(0).action(RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &mac), 2);
    names(Rule(counting).queue(0).action(RTE_FLOW_ACTION_TYPE_SAMPLE, &sample), 2);
    names(Rule(counting).action(RTE_FLOW_ACTION_TYPE_JUMP, &jump), 1);
    names(Rule(counting).action(RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL), 1);
    device.offers_counters = false;
    names(ipv4().queue(0).mark(1).action(RTE_FLOW_ACTION_TYPE_COUNT), 2);
}

TEST_F(RefusalsTest, NameWhatHasNoEffect) {
    const Rule dropping = ipv4().action(RTE_FLOW_ACTION_TYPE_DROP);
    names(Rule(dropping).mark(1), 1);
    names(Rule(dropping).action(RTE_FLOW_ACTION_TYPE_DEC_TTL), 1);
    const Rule passing = ipv4().action(RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL);
    names(Rule(passing).mark(1), 1);
    names(Rule(passing).action(RTE_FLOW_ACTION_TYPE_DEC_TTL), 1);
}

TEST_F(RefusalsTest, NameTheItemThatTheEngineLacks) {
    auto tagged = zeroed<rte_flow_item_eth>();
    tagged.has_vlan = 1;
    const Rule rule = Rule()
                          .item(RTE_FLOW_ITEM_TYPE_VOID)
                          .item(RTE_FLOW_ITEM_TYPE_ETH, &tagged, &tagged)
                          .item(RTE_FLOW_ITEM_TYPE_IPV4)
                          .queue(0);
    const std::string text = refused(rule);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_MASK) << text;
    EXPECT_EQ(error.cause, &rule.pattern()[1]) << text;
}

/// Of IPv6's flags, devices tell one.
TEST_F(RefusalsTest, NameTheExtensionHeader) {
    using Item = rte_flow_item_ipv6;
    const std::pair<const char*, void (*)(Item&)> kFlags[] = {
        {"has_hop_ext", [](Item& ipv6) { ipv6.has_hop_ext = 1; }},
        {"has_route_ext", [](Item& ipv6) { ipv6.has_route_ext = 1; }},
        {"has_auth_ext", [](Item& ipv6) { ipv6.has_auth_ext = 1; }},
        {"has_esp_ext", [](Item& ipv6) { ipv6.has_esp_ext = 1; }},
        {"has_dest_ext", [](Item& ipv6) { ipv6.has_dest_ext = 1; }},
        {"has_mobil_ext", [](Item& ipv6) { ipv6.has_mobil_ext = 1; }},
        {"has_hip_ext", [](Item& ipv6) { ipv6.has_hip_ext = 1; }},
        {"has_shim6_ext", [](Item& ipv6) { ipv6.has_shim6_ext = 1; }},
        {"reserved", [](Item& ipv6) { ipv6.reserved = 1; }}};
    for (const auto& [name, set] : kFlags) {
        const auto spec = zeroed<Item>();
        auto mask = zeroed<Item>();
        mask.has_frag_ext = 1;
        set(mask);
        const Rule rule = Rule()
                              .item(RTE_FLOW_ITEM_TYPE_ETH)
                              .item(RTE_FLOW_ITEM_TYPE_IPV6, &spec, &mask)
                              .queue(0);
        EXPECT_THAT(refused(rule), testing::HasSubstr(fmt::format("item ipv6: field {} cannot be "
                                                                  "matched",
                                                                  name)));
        EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_MASK) << name;
        EXPECT_EQ(error.cause, &rule.pattern()[1]) << name;
    }
}

/// testpmd has no way to ask for it.
TEST_F(RefusalsTest, SayWhatWorksInsteadOfASecuritySession) {
    EXPECT_THAT(refused(ipv4().action(RTE_FLOW_ACTION_TYPE_SECURITY)),
                testing::HasSubstr("action security is not supported: there are no sessions of "
                                   "rte_security: use queue or rss"));
}

TEST_F(RefusalsTest, NameAttributes) {
    Rule later = ipv4().queue(0);
    later.attr.group = 1;
    refused(later);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ATTR_GROUP);
    EXPECT_EQ(error.cause, &later.attr);
    Rule sent = ipv4().action(RTE_FLOW_ACTION_TYPE_DROP);
    sent.attr.ingress = 0;
    sent.attr.egress = 1;
    refused(sent);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ATTR_EGRESS);
    EXPECT_EQ(error.cause, &sent.attr);
}

} // namespace
} // namespace rawqp::test
