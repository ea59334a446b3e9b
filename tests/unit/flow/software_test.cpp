// SPDX-License-Identifier: BSD-3-Clause
// Groups in software steering: when they use it, what the device is then asked for, and in which
// order.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/software.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using verbs_test::DrAction;
using verbs_test::DrRule;
using Kind = DrAction::Kind;

TEST_F(SoftwareTest, ATableTakesItsGroupsAndTheJumpsThere) {
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    ASSERT_NE(create(of(1, udp_to(7, 2))), nullptr) << error.message;
    ASSERT_THAT(device.flows, SizeIs(1));
    auto* const to = marking_table();
    ASSERT_NE(to, nullptr) << error.message;
    EXPECT_THAT(device.flows, IsEmpty());
    EXPECT_FALSE(dr->unsettled);
    ASSERT_THAT(rules_of(0), SizeIs(1));
    EXPECT_EQ(rules_of(0)[0]->does(Kind::table)->table->group(), 1u);
    ASSERT_THAT(rules_of(1), SizeIs(1));

    const size_t commands = device.calls();
    ASSERT_NE(enqueue(to, flow(1, 2).queue(3).mark(5)), nullptr) << error.message;
    ASSERT_NE(enqueue(to, flow(1, 3).queue(3).mark(6)), nullptr) << error.message;
    EXPECT_LE(device.calls() - commands, 3u); // for a TIR
    ASSERT_THAT(rules_of(1), SizeIs(3));
    const DrRule& rule = *rules_of(1)[1];
    EXPECT_EQ(rule.does(Kind::tag)->tag, tag_of_mark(5));
    EXPECT_NE(rule.does(Kind::tir), nullptr);
    EXPECT_EQ(rule.matcher, rules_of(1)[2]->matcher);
    // IPv4 is matched by its version, not by EtherType.
    constexpr size_t kEtherType = 6, kVersion = 18;
    EXPECT_EQ(rule.matcher->mask[kVersion] & 0x1e, 4 << 1);
    EXPECT_EQ(rule.value[kVersion] & 0x1e, 4 << 1);
    EXPECT_EQ(rule.matcher->mask[kEtherType] | rule.matcher->mask[kEtherType + 1], 0);
}

TEST_F(SoftwareTest, WithoutTheTableTheyAreByCommandsAgain) {
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    auto* const one = marking_table(1);
    auto* const other = marking_table(2);
    EXPECT_EQ(table->destroy(one, &error), 0);
    EXPECT_THAT(rules_of(0), SizeIs(1));
    EXPECT_EQ(table->destroy(other, &error), 0);
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_THAT(device.flows, SizeIs(1));
}

TEST_F(SoftwareTest, ATableOfGroup0ChangesNothing) {
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    ASSERT_NE(marking_table(0), nullptr) << error.message;
    EXPECT_EQ(dr->domains, 0u);
    EXPECT_THAT(device.flows, SizeIs(1));
}

TEST_F(SoftwareTest, WhereTheDeviceHasNone) {
    dr->offered = false;
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    auto* const to = marking_table();
    ASSERT_NE(to, nullptr) << error.message;
    EXPECT_NE(enqueue(to, flow(1, 2).queue(3).mark(5)), nullptr) << error.message;
    EXPECT_THAT(dr->rules, IsEmpty());
}

TEST_F(SoftwareTest, WhereTheDeviceRefusesTheMatch) {
    dr->refuses = EOPNOTSUPP;
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    auto* const to = marking_table();
    ASSERT_NE(to, nullptr) << error.message;
    EXPECT_NE(enqueue(to, flow(1, 2).queue(3).mark(5)), nullptr) << error.message;
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_THAT(device.flows, SizeIs(1));
}

TEST_F(SoftwareTest, AnotherWordMakesThemCommands) {
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    auto* const to = marking_table();
    auto* const rule = enqueue(to, flow(1, 2).queue(3).mark(5));
    ASSERT_NE(rule, nullptr) << error.message;
    const Rule more = tag_off(2);
    EXPECT_EQ(table->validate(&more.attr, more.pattern(), more.actions(), &error), 0);
    EXPECT_THAT(dr->rules, SizeIs(2));
    ASSERT_NE(create(more), nullptr) << error.message;
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_THAT(device.flows, SizeIs(1));
    EXPECT_THAT(rooms(), IsEmpty()) << "of the table";
    EXPECT_NE(enqueue(to, flow(1, 3).queue(3).mark(5)), nullptr) << error.message;
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_EQ(table->async_destroy(0, rule, nullptr, &error), 0) << error.message;
}

/// Also a rule of a shape seen before, whatever the device calls its refusal.
TEST_F(SoftwareTest, ARefusalOfAKnownShapeMakesThemCommands) {
    for (const int refusal : {EINVAL, ENOSYS, EOPNOTSUPP}) {
        dr->refuses = 0;
        auto* const to = marking_table();
        ASSERT_NE(to, nullptr) << error.message;
        const Rule rule =
            of(1, Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4).queue(2));
        for (int i = 0; i < 2; ++i) {
            rte_flow* const made = create(rule);
            ASSERT_NE(made, nullptr) << error.message;
            EXPECT_THAT(rules_of(1), SizeIs(1));
            EXPECT_EQ(table->destroy(made, &error), 0) << error.message;
        }
        dr->refuses = refusal;
        rte_flow* const made = create(rule);
        ASSERT_NE(made, nullptr) << refusal << ": " << error.message;
        EXPECT_THAT(rules_of(1), IsEmpty());
        EXPECT_EQ(table->destroy(made, &error), 0) << error.message;
        EXPECT_EQ(table->destroy(to, &error), 0) << error.message;
    }
}

TEST_F(SoftwareTest, OtherActionsMakeThemCommands) {
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    ASSERT_NE(marking_table(), nullptr) << error.message;
    auto* const rule = create(tagged(1).queue(2));
    ASSERT_NE(rule, nullptr) << error.message;
    EXPECT_EQ(table->update_actions(rule, tagged(1).queue(3).actions(), &error), 0);
    EXPECT_THAT(dr->rules, SizeIs(3)); // one for each kind of tag
    EXPECT_FALSE(dr->unsettled);
    EXPECT_EQ(table->update_actions(rule, tag_off(1).actions(), &error), 0) << error.message;
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_THAT(device.flows, SizeIs(1));
}

/// If one fails, none is moved, and all are as before.
TEST_F(SoftwareTest, AllRulesGoOverOrNone) {
    for (const uint16_t port : {1, 2, 3})
        ASSERT_NE(create(of(1, udp_to(port, 1))), nullptr) << error.message;
    for (const uint32_t priority : {0u, 1u}) {
        Rule way = jump(1);
        way.attr.priority = priority;
        ASSERT_NE(create(way), nullptr) << error.message;
    }
    for (size_t nth = 1; nth <= 5; ++nth) {
        dr->fail_rule = nth;
        auto* const to = marking_table();
        ASSERT_NE(to, nullptr) << error.message;
        ASSERT_EQ(dr->fail_rule, 0u) << nth;
        EXPECT_THAT(dr->rules, IsEmpty()) << nth;
        EXPECT_THAT(device.flows, SizeIs(2)) << nth;
        EXPECT_EQ(table->destroy(to, &error), 0);
    }
    ASSERT_NE(marking_table(), nullptr) << error.message;
    EXPECT_THAT(dr->rules, SizeIs(5));
}

TEST_F(SoftwareTest, TheDeviceHasARuleWhenCreateReturnsOrItsResultIsPulled) {
    auto* const to = marking_table();
    ASSERT_NE(to, nullptr) << error.message;
    auto* const usual = create(of(1, udp_to(7, 2)));
    EXPECT_FALSE(dr->unsettled);
    EXPECT_EQ(table->destroy(usual, &error), 0);
    EXPECT_FALSE(dr->unsettled);
    // The last rule that leads to a TIR also destroys it, which waits for the device anyway.
    const Rule dropping = of(1, Rule()
                                    .item(RTE_FLOW_ITEM_TYPE_ETH)
                                    .item(RTE_FLOW_ITEM_TYPE_IPV4)
                                    .action(RTE_FLOW_ACTION_TYPE_DROP));
    auto* const dropped = create(dropping);
    ASSERT_NE(dropped, nullptr) << error.message;
    EXPECT_EQ(table->destroy(dropped, &error), 0);
    EXPECT_FALSE(dr->unsettled);
    ASSERT_NE(create(dropping), nullptr) << error.message;
    EXPECT_EQ(table->flush(&error), 0);
    EXPECT_FALSE(dr->unsettled);

    auto* const rule = enqueue(to, flow(1, 2).queue(3).mark(5));
    EXPECT_TRUE(dr->unsettled);
    EXPECT_EQ(pull(), 1);
    EXPECT_FALSE(dr->unsettled);
    EXPECT_EQ(table->async_destroy(0, rule, nullptr, &error), 0);
    dr->sync_error = EIO;
    ASSERT_NE(enqueue(to, flow(1, 2).queue(3).mark(5)), nullptr) << error.message;
    EXPECT_EQ(pull(), -EIO);
    EXPECT_THAT(error.message, HasSubstr("the device does not get its rules"));
    dr->sync_error = 0;
    EXPECT_EQ(pull(), 2); // the two that were not reported
}

/// The device may confirm it later: the handle is gone in any case.
TEST_F(SoftwareTest, ARuleIsDestroyedWhereTheDeviceDoesNotAnswer) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    auto* const rule = create(of(1, udp_to(7, 2)));
    auto* const other = create(of(1, udp_to(8, 2)));
    ASSERT_TRUE(rule != nullptr && other != nullptr) << error.message;
    dr->sync_error = EIO;
    EXPECT_EQ(table->destroy(rule, &error), 0);
    EXPECT_EQ(table->destroy(rule, &error), -EINVAL);
    EXPECT_THAT(error.message, HasSubstr("no such rule"));
    EXPECT_EQ(create(of(1, udp_to(9, 2))), nullptr);
    EXPECT_THAT(error.message, HasSubstr("the device does not get its rules"));
    dr->sync_error = 0;
    EXPECT_THAT(rules_of(1), SizeIs(1));
    EXPECT_EQ(table->destroy(other, &error), 0);
}

/// Likewise, an update that was carried out does not fail.
TEST_F(SoftwareTest, ActionsAreUpdatedWhereTheDeviceDoesNotAnswer) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    auto* const rss = table->share(&directions, Rule().rss({0, 1}).actions(), &error);
    auto* const sharing = create(of(1, Rule().item(RTE_FLOW_ITEM_TYPE_ETH).indirect(rss)));
    auto* const rule = create(of(1, udp_to(7, 2)));
    ASSERT_TRUE(rule != nullptr && sharing != nullptr) << error.message;
    const auto leads_to = [&](const rte_flow* updated, const char* where) {
        EXPECT_THAT(test_text::written(
                        [&](FILE* file) { EXPECT_EQ(table->dump(updated, file, &error), 0); }),
                    HasSubstr(where));
    };
    dr->sync_error = EIO;
    EXPECT_EQ(table->update_actions(rule, Rule().queue(3).actions(), &error), 0) << error.message;
    EXPECT_EQ(table->update_shared(rss, Rule().rss({2, 3}).actions(), &error), 0) << error.message;
    leads_to(rule, "queue 3");
    leads_to(sharing, "queues 2 3");
    device.violations.clear(); // without an answer, waiting is impossible
    dr->sync_error = 0;
    EXPECT_EQ(table->flush(&error), 0);
    EXPECT_EQ(table->unshare(rss, &error), 0);
}

/// A start that the device does not confirm has no effect: the next one creates the rules.
TEST_F(SoftwareTest, AStartThatDoesNotSettleLeavesThePortStopped) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    ASSERT_NE(create(of(1, udp_to(7, 2))), nullptr) << error.message;
    table->stop();
    dr->sync_error = EIO;
    EXPECT_FALSE(table->start());
    EXPECT_THAT(dr->rules, IsEmpty());
    device.violations.clear(); // without an answer, waiting is impossible
    dr->sync_error = 0;
    ASSERT_NE(create(of(1, udp_to(8, 2))), nullptr) << error.message;
    EXPECT_THAT(dr->rules, IsEmpty()) << "the port is stopped";
    ASSERT_TRUE(table->start());
    EXPECT_THAT(rules_of(1), SizeIs(2));
}

/// The fake checks that counters and TIRs outlive the device's use of them.
TEST_F(SoftwareTest, WhatARuleRefersToGoesAfterIt) {
    const Rule counting = Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT);
    auto* const to = create_table(counting, Rule().queue(0).action(RTE_FLOW_ACTION_TYPE_COUNT));
    ASSERT_NE(to, nullptr) << error.message;
    for (int round = 0; round < 2; ++round) {
        const Rule rule = flow(1, 2).queue(3).action(RTE_FLOW_ACTION_TYPE_COUNT);
        auto* const made = enqueue(to, rule);
        ASSERT_NE(made, nullptr) << error.message;
        EXPECT_EQ(table->async_destroy(0, made, nullptr, &error), 0);
    }
    ASSERT_NE(create(of(1, udp_to(8, 2))), nullptr) << error.message; // uses the same TIR
    auto* const usual = create(of(1, udp_to(7, 2).action(RTE_FLOW_ACTION_TYPE_COUNT)));
    ASSERT_NE(usual, nullptr) << error.message;
    EXPECT_EQ(table->destroy(usual, &error), 0);
    EXPECT_EQ(pull(), 4);
    EXPECT_THAT(dr->leaving, IsEmpty());
}

/// An operation is done when requested: nobody has to pull the result of the first for the second.
TEST_F(SoftwareTest, ACountIsDestroyedRightAfterItsLastRule) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    auto* const count = table->share(&directions, &action, &error);
    // No TIR goes with it, for which the device would be waited for.
    auto* const rule = create(of(
        1, Rule().item(RTE_FLOW_ITEM_TYPE_ETH).action(RTE_FLOW_ACTION_TYPE_DROP).indirect(count)));
    ASSERT_NE(rule, nullptr) << error.message;
    const auto destroy_count = [&] { return table->unshare(count, &error); };
    EXPECT_EQ(table->async(0, nullptr, &error, destroy_count), -EBUSY);
    EXPECT_EQ(table->async_destroy(0, rule, nullptr, &error), 0);
    EXPECT_EQ(table->async(0, nullptr, &error, destroy_count), 0) << error.message;
    EXPECT_EQ(pull(), 2);
}

/// Nothing was written that the counter would have to wait for.
TEST_F(SoftwareTest, ARuleThatIsNotMadeLetsGoOfItsSharedCount) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    bool made = false;
    int failures = 0;
    for (; !made; ++failures) {
        auto* const count = table->share(&directions, &action, &error);
        ASSERT_NE(count, nullptr) << error.message;
        device.fail_call(failures + 1, ENOMEM);
        made = create(of(1, udp_to(7, 2).indirect(count))) != nullptr;
        device.fail_call(0, 0);
        EXPECT_EQ(table->flush(&error), 0);
        EXPECT_EQ(table->unshare(count, &error), 0) << error.message;
    }
    EXPECT_GT(failures, 2);
}

/// Nothing has moved, so nothing has to move back, which would need a level as well.
TEST_F(SoftwareTest, WithoutALevelToSpareJumpsStayWhereTheyAre) {
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    Rule other = udp_to(7, 2);
    while (create(other) != nullptr)
        ++other.attr.priority;
    EXPECT_THAT(error.message, HasSubstr("other rte_flow priorities use them"));
    const size_t flows = device.flows.size();
    testing::internal::CaptureStderr();
    EXPECT_NE(marking_table(), nullptr) << error.message;
    EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("lead to no rules")));
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_THAT(device.flows, SizeIs(flows));
}

/// A rule that switches groups to commands is refused, by validate as well, if an existing rule
/// cannot follow: because no level is left, or because commands cannot express it.
TEST_F(SoftwareTest, ValidateKnowsWhatCannotGoBack) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    const auto refused = [&](const char* why) {
        const Rule more = tag_off(2);
        const size_t flows = device.flows.size(), rules = dr->rules.size();
        EXPECT_LT(table->validate(&more.attr, more.pattern(), more.actions(), &error), 0);
        EXPECT_THAT(error.message, HasSubstr(why));
        EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_UNSPECIFIED);
        EXPECT_EQ(create(more), nullptr);
        EXPECT_THAT(error.message, HasSubstr(why));
        EXPECT_THAT(device.flows, SizeIs(flows));
        EXPECT_THAT(dr->rules, SizeIs(rules));
    };
    auto* const far = create(of(30, jump(40)));
    ASSERT_NE(far, nullptr) << error.message;
    refused("cannot be made anew for that: action jump");
    EXPECT_EQ(table->destroy(far, &error), 0);

    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    Rule other = udp_to(7, 2);
    while (create(other) != nullptr)
        ++other.attr.priority;
    EXPECT_THAT(error.message, HasSubstr("other rte_flow priorities use them"));
    refused("cannot be made anew for that: all 10 steering priorities");
}

/// One jump after the other goes back: each needs a level to spare, but not all of them one each.
TEST_F(SoftwareTest, OneLevelToSpareIsEnoughForAllJumps) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    const auto at = [](uint32_t priority, Rule rule) {
        rule.attr.priority = priority;
        return rule;
    };
    for (const uint32_t priority : {0, 1, 2})
        ASSERT_NE(create(at(priority, jump(1))), nullptr) << error.message;
    for (uint32_t priority = 0; priority < 9; ++priority)
        ASSERT_NE(create(at(priority, udp_to(7, 2))), nullptr) << error.message;
    const Rule more = tag_off(2);
    EXPECT_EQ(table->validate(&more.attr, more.pattern(), more.actions(), &error), 0)
        << error.message;
    EXPECT_NE(create(more), nullptr) << error.message;
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_THAT(device.flows, SizeIs(3 + 9));
}

/// Apart from what the tests' device allocates for a rule and a tag.
TEST_F(SoftwareTest, NothingIsAllocatedForARule) {
    constexpr uint16_t kRules = 20;
    auto* const to = marking_table();
    ASSERT_NE(to, nullptr) << error.message;
    ASSERT_NE(enqueue(to, flow(1, 1).queue(3).mark(1)), nullptr) << error.message;
    dr->rules.reserve(100);
    dr->actions.reserve(100);
    std::vector<Rule> rules;
    for (uint16_t port = 2; port < 2 + kRules; ++port)
        rules.push_back(flow(1, port).queue(3).mark(port));
    size_t before = allocations();
    for (const Rule& rule : rules)
        ASSERT_NE(enqueue(to, rule), nullptr) << error.message;
    const size_t by_driver = allocations() - before;

    const verbs::Api& api = device.api();
    auto* const matcher = reinterpret_cast<mlx5dv_dr_matcher*>(
        const_cast<verbs_test::DrMatcher*>(dr->rules[0]->matcher));
    auto* const tir =
        reinterpret_cast<mlx5dv_dr_action*>(const_cast<DrAction*>(dr->rules[0]->does(Kind::tir)));
    std::vector<uint64_t> match(1 + dr->rules[0]->value.size() / 8);
    auto* const value = reinterpret_cast<mlx5dv_flow_match_parameters*>(match.data());
    value->match_sz = dr->rules[0]->value.size();
    before = allocations();
    std::array<std::pair<mlx5dv_dr_rule*, mlx5dv_dr_action*>, kRules> made;
    for (auto& [rule, tag] : made) {
        mlx5dv_dr_action* actions[] = {tag = api.mlx5_dr_tag(1), tir};
        rule = api.mlx5_dr_rule_create(matcher, value, 2, actions);
    }
    EXPECT_EQ(by_driver, allocations() - before);
    for (const auto& [rule, tag] : made) {
        api.mlx5_dr_rule_destroy(rule);
        api.mlx5_dr_action_destroy(tag);
    }
}

TEST_F(SoftwareTest, AStoppedPortHasNoRulesAndGetsTheSameBack) {
    ASSERT_NE(create(jump(1)), nullptr) << error.message;
    auto* const to = marking_table();
    ASSERT_NE(enqueue(to, flow(1, 2).queue(3).mark(5)), nullptr) << error.message;
    const Rule drops = of(1, Rule()
                                 .item(RTE_FLOW_ITEM_TYPE_ETH)
                                 .item(RTE_FLOW_ITEM_TYPE_IPV6)
                                 .action(RTE_FLOW_ACTION_TYPE_DROP));
    ASSERT_NE(create(drops), nullptr) << error.message;
    table->stop();
    EXPECT_THAT(dr->rules, IsEmpty());
    EXPECT_FALSE(dr->unsettled);
    ASSERT_NE(create(of(1, udp_to(7, 2))), nullptr) << error.message;
    ASSERT_TRUE(table->start());
    EXPECT_FALSE(dr->unsettled);
    EXPECT_THAT(rules_of(0), SizeIs(1));
    EXPECT_THAT(rules_of(1), SizeIs(3));
    EXPECT_THAT(device.flows, IsEmpty());
}

TEST_F(SoftwareTest, WhatAJumpSaysAndChangesIsDoneInGroup0) {
    ASSERT_NE(marking_table(), nullptr) << error.message;
    ASSERT_NE(create(led(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).mark(5), 1)), nullptr)
        << error.message;
    ASSERT_THAT(rules_of(0), SizeIs(1));
    const DrRule& way = *rules_of(0)[0];
    EXPECT_EQ(way.does(Kind::tag)->tag, tag_of_mark(5));
    ASSERT_NE(way.does(Kind::rewrite), nullptr); // copies the mark to its register
    EXPECT_TRUE(way.does(Kind::rewrite)->root);
    ASSERT_NE(create(of(1, led(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).mark(6), 2))), nullptr)
        << error.message;
    EXPECT_FALSE(rules_of(1)[0]->does(Kind::rewrite)->root);
}

} // namespace
} // namespace rawqp::test
