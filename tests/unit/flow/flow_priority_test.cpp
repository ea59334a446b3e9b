// SPDX-License-Identifier: BSD-3-Clause
// Priorities of rte_flow rules, and the levels of the device that they share.
#include "tests/unit/flow/flow_table.hpp"

#include <map>
#include <set>

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

TEST_F(FlowTableTest, AsManyPrioritiesAsTheDeviceHasLevelsFor) {
    start();
    Rule rule = udp_to(1, 0);
    for (uint32_t n = 0; n < 10; ++n) { // any numbers, in any order
        rule.attr.priority = n % 2 == 0 ? 1000 - n : 7 * n;
        ASSERT_NE(create(rule), nullptr) << error.message;
    }
    std::map<uint16_t, size_t> levels;
    for (const auto* flow : device.rules())
        ++levels[flow->level()];
    EXPECT_THAT(levels, SizeIs(10));
    rule.attr.priority = 5;
    EXPECT_THAT(refused(rule), HasSubstr("priority 5: the device has 10 steering priorities"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY);
    Rule other = udp_to(2, 0);
    other.attr.priority = 63; // one of those
    EXPECT_NE(create(other), nullptr) << error.message;
}

TEST_F(FlowTableTest, RulesOfOnePriorityShareALevelWhereLevelsAreScarce) {
    start();
    for (uint32_t priority = 0; priority < 10; ++priority)
        for (const rte_flow_item_type last : {RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV6}) {
            Rule rule = Rule().item(last).queue(1);
            rule.attr.priority = priority;
            const size_t before = device.flows.size();
            device.on_change = [&] { EXPECT_GE(device.flows.size(), before); }; // none is ever out
            ASSERT_NE(create(rule), nullptr) << error.message;
        }
    device.on_change = nullptr;
    std::map<uint16_t, size_t> levels;
    for (const auto* flow : device.rules())
        ++levels[flow->level()];
    EXPECT_THAT(levels, SizeIs(10));
    for (const auto& [level, rules] : levels)
        EXPECT_EQ(rules, 2u) << "level " << level;
    Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).queue(1);
    rule.attr.priority = 10;
    EXPECT_THAT(refused(rule), HasSubstr("priority 10: the device has 10 steering priorities"));
}

TEST_F(FlowTableTest, WithoutATableAnRssOfSeveralClassesNeedsLevels) {
    start();
    const auto rss_at = [](uint32_t priority) {
        Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).rss({0, 1}, RTE_ETH_RSS_IP);
        rule.attr.priority = priority;
        return rule;
    };
    for (uint32_t priority = 0; priority < 5; ++priority)
        ASSERT_NE(create(rss_at(priority)), nullptr) << error.message;
    EXPECT_THAT(refused(rss_at(5)), HasSubstr("an rss of several traffic classes needs one for"));
}

TEST_F(FlowTableTest, RulesThatMakeRoomAreNeverOut) {
    start();
    for (const uint32_t priority : {0u, 9u, 1u, 8u, 2u, 7u, 3u, 6u, 4u}) {
        Rule rule = udp_to(1, 0);
        rule.attr.priority = priority;
        device.on_change = [&] { EXPECT_FALSE(device.flows.empty()); };
        if (device.flows.empty()) device.on_change = nullptr;
        ASSERT_NE(create(rule), nullptr) << error.message;
    }
    device.on_change = nullptr;
    table.stop();
    start();
    EXPECT_THAT(device.flows, SizeIs(9));
}

TEST_F(FlowTableTest, AMoveThatFailsHalfWayLeavesEveryRuleAtItsLevel) {
    start();
    for (const uint32_t priority : {0u, 3u, 10u, 20u, 30u, 40u, 50u, 60u, 70u}) {
        Rule rule = udp_to(1, 0);
        rule.attr.priority = priority;
        ASSERT_NE(create(rule), nullptr) << error.message;
    }
    for (const uint16_t port : {2, 3}) { // at the same level as one of the rules above
        Rule rule = udp_to(port, 0);
        rule.attr.priority = 3;
        ASSERT_NE(create(rule), nullptr) << error.message;
    }
    const auto levels = [&] {
        std::multiset<uint16_t> all;
        for (const auto* flow : device.rules())
            all.insert(flow->level());
        return all;
    };
    const auto before = levels();
    Rule between = udp_to(1, 0);
    between.attr.priority = 15;
    for (int nth = 1; nth <= 3; ++nth) {
        int calls = 0;
        device.refuse_flow = [&](const auto&) { return ++calls == nth ? ENOMEM : 0; };
        EXPECT_EQ(create(between), nullptr);
        EXPECT_EQ(calls, nth);
        EXPECT_EQ(levels(), before);
    }
    device.refuse_flow = nullptr;
    ASSERT_NE(create(between), nullptr) << error.message;
    EXPECT_THAT(device.flows, SizeIs(12));
    std::map<uint16_t, size_t> used;
    for (const uint16_t level : levels())
        ++used[level];
    EXPECT_THAT(used, SizeIs(10)); // the three of one priority still share a level
}

} // namespace
} // namespace rawqp::test
