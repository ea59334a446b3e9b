// SPDX-License-Identifier: BSD-3-Clause
// Groups in software steering: hash tables that have room for all rules of a template table.
#include "tests/unit/flow/software.hpp"

namespace rawqp::test {
namespace {

using testing::IsEmpty;

TEST_F(SoftwareTest, ATableHasRoomForItsRulesFromTheStart) {
    auto* const to = marking_table();
    ASSERT_NE(to, nullptr) << error.message;
    EXPECT_EQ(rooms(), std::vector{6u});
    const auto* const matcher = dr->matchers.front().get();
    for (int round = 0; round < 2; ++round) {
        auto* const rule = enqueue(to, flow(1, 2).queue(3).mark(5));
        ASSERT_NE(rule, nullptr) << error.message;
        EXPECT_EQ(rules_of(1).front()->matcher, matcher);
        EXPECT_EQ(table->async_destroy(0, rule, nullptr, &error), 0);
    }
    EXPECT_EQ(rooms(), std::vector{6u});
    EXPECT_EQ(table->destroy(to, &error), 0) << error.message;
    EXPECT_THAT(dr->matchers, IsEmpty());
}

TEST_F(SoftwareTest, RoomIsRoundedUpAndBounded) {
    for (const auto& [rules, room] : {std::pair{1u, 0u}, {2u, 1u}, {65u, 7u}, {1u << 21, 20u}}) {
        auto* const to = marking_table(1, rules);
        ASSERT_NE(to, nullptr) << error.message;
        EXPECT_EQ(rooms(), std::vector{room}) << rules;
        EXPECT_EQ(table->destroy(to, &error), 0) << error.message;
    }
}

/// The fake does not let a matcher shrink.
TEST_F(SoftwareTest, TablesThatShareAMatcherHaveTheRoomOfTheLargest) {
    for (const uint32_t rules : {64u, 1024u, 8u})
        ASSERT_NE(marking_table(1, rules), nullptr) << error.message;
    EXPECT_EQ(rooms(), std::vector{10u});
    ASSERT_NE(marking_table(2), nullptr) << error.message;
    EXPECT_EQ(rooms(), (std::vector{10u, 6u}));
}

TEST_F(SoftwareTest, WhereNoDefinerCoversTheMaskTablesGrow) {
    dr->resizes = false;
    auto* const to = marking_table();
    ASSERT_NE(to, nullptr) << error.message;
    EXPECT_EQ(rooms(), std::vector{0u});
    EXPECT_NE(enqueue(to, flow(1, 2).queue(3).mark(5)), nullptr) << error.message;
}

/// An rss has a rule, and thus a matcher, for each class of packets that it tells apart.
TEST_F(SoftwareTest, RoomFollowsTheClassesOfAnIndirectRss) {
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    const auto rss = [](uint64_t types) { return Rule().rss({0, 1}, types); };
    const auto several = rss(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP), few = rss(RTE_ETH_RSS_IPV4);
    auto* const shared = table->share(&directions, several.actions(), &error);
    ASSERT_NE(shared, nullptr) << error.message;
    const Rule by_it = Rule().indirect(shared);
    ASSERT_NE(create_table(by_it, by_it, 1, 64, Rule().item(RTE_FLOW_ITEM_TYPE_ETH)), nullptr)
        << error.message;
    EXPECT_EQ(rooms(), std::vector(5, 6u));
    ASSERT_EQ(table->update_shared(shared, few.actions(), &error), 0) << error.message;
    EXPECT_EQ(rooms(), std::vector(2, 6u));
}

} // namespace
} // namespace rawqp::test
