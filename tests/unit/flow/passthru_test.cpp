// SPDX-License-Identifier: BSD-3-Clause
// Action passthru: the stages of groups, in which order the device meets their rules, and when they
// come and go.
#include "drivers/net/rawqp/ethdev/devx/commands.hpp"
#include "drivers/net/rawqp/ethdev/flow/stages.hpp"
#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/software.hpp"

#include <algorithm>

namespace rawqp::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;
using verbs_test::DevxObject;
using Kind = verbs_test::DrAction::Kind;

constexpr uint16_t kTable = 0x930, kEntry = 0x936;
constexpr size_t kTableAt = 20, kIndexAt = 32, kTagAt = 72, kActionsAt = 76, kListAt = 832;

Rule at(uint32_t group, uint32_t priority, Rule rule) {
    rule.attr.group = group;
    rule.attr.priority = priority;
    return rule;
}
Rule passing(Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_ETH)) {
    return rule.action(RTE_FLOW_ACTION_TYPE_PASSTHRU);
}
Rule sent(Rule rule) {
    rule.attr.ingress = 0;
    rule.attr.egress = 1;
    return rule;
}

TEST(GroupStages, PrioritiesAreDividedBehindEachThatPassesOn) {
    GroupStages stages;
    const GroupStages::Group one{1, false};
    UseRef first(stages.open(one, 3)), second(stages.open(one, 10));
    std::vector<int> found;
    for (const uint32_t priority : {0u, 3u, 4u, 10u, 11u, 4095u})
        found.push_back(stages.stage_of(one, priority));
    EXPECT_THAT(found, ElementsAre(0, 0, 1, 1, 2, 2));
    EXPECT_EQ(stages.stage_of({1, true}, 11), 0);
    EXPECT_EQ(stages.stage_of({2, false}, 11), 0);
}

TEST(GroupStages, AStageStaysAsLongAsALaterOneIsUsed) {
    GroupStages stages;
    const GroupStages::Group one{1, false};
    UseRef first(stages.open(one, 3)), second(stages.open(one, 10));
    first = {};
    EXPECT_EQ(stages.stage_of(one, 11), 2);
    first = UseRef(*stages.find(one, 1));
    second = {};
    EXPECT_EQ(stages.stage_of(one, 11), 1);
    first = {};
    EXPECT_TRUE(stages.empty());
}

class PassthruTest : public FlowTableTest {
  protected:
    PassthruTest() : FlowTableTest(FlowEngine::mlx5) {
        device.offers_counters = true;
        start();
    }
    ~PassthruTest() override {
        table.flush(nullptr);
        EXPECT_THAT(made(kTable), IsEmpty());
        EXPECT_THAT(made(kEntry), IsEmpty());
    }
    std::vector<const DevxObject*> made(uint16_t opcode) const {
        std::vector<const DevxObject*> found;
        for (const auto& object : device.devx_objects)
            if (object->opcode() == opcode) found.push_back(object.get());
        return found;
    }
    /// The levels of all tables, lowest first.
    std::vector<uint32_t> levels() const {
        std::vector<uint32_t> found;
        for (const DevxObject* const each : made(kTable))
            found.push_back(each->word(24) >> 16 & 0xff);
        std::ranges::sort(found);
        return found;
    }
    uint32_t table_at(uint32_t level) const {
        for (const DevxObject* const each : made(kTable))
            if ((each->word(24) >> 16 & 0xff) == level) return each->number;
        ADD_FAILURE() << "no table at level " << level;
        return 0;
    }
    /// The entries of the table at a level, in the order of the device.
    std::vector<const DevxObject*> entries(uint32_t level) const {
        auto found = made(kEntry);
        std::erase_if(found,
                      [&](const auto* each) { return each->word(kTableAt) != table_at(level); });
        std::ranges::sort(found, {}, [](const auto* each) { return each->word(kIndexAt); });
        return found;
    }
    static uint32_t leads_to(const DevxObject& entry) { return entry.word(kListAt); }
    uint32_t to_table(uint32_t level) const { return prm::kToTable << 24 | table_at(level); }
};

TEST_F(PassthruTest, LowerPrioritiesAreInATableBehind) {
    ASSERT_NE(create(at(1, 3, passing(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).mark(5)))), nullptr)
        << error.message;
    for (const uint32_t priority : {2u, 3u, 4u, 4095u})
        ASSERT_NE(create(at(1, priority, udp_to(53, 1))), nullptr) << error.message;
    EXPECT_THAT(levels(), ElementsAre(41, 42));
    const auto first = entries(41);
    ASSERT_THAT(first, SizeIs(4));
    EXPECT_EQ(leads_to(*first[0]) >> 24, prm::kToTir);
    const bool passes_first = first[1]->word(kTagAt) != 0;
    EXPECT_EQ(first[passes_first ? 1 : 2]->word(kTagAt), tag_of_mark(5));
    EXPECT_EQ(leads_to(*first[passes_first ? 1 : 2]), to_table(42));
    // What matches none goes on, too.
    EXPECT_EQ(leads_to(*first[3]), to_table(42));
    EXPECT_EQ(first[3]->word(kActionsAt), prm::kForward);
    EXPECT_GE(first[3]->word(kIndexAt), (1u << 20) - 9000);
    EXPECT_THAT(entries(42), SizeIs(2));
}

TEST_F(PassthruTest, ThePlaceBehindAllPrioritiesIsNoOtherRules) {
    ASSERT_NE(create(at(1, 4095, passing())), nullptr) << error.message;
    ASSERT_NE(create(at(1, 4095, udp_to(53, 1))), nullptr) << error.message;
    const auto first = entries(41);
    ASSERT_THAT(first, SizeIs(3));
    EXPECT_EQ(leads_to(*first[2]), to_table(42));
    EXPECT_EQ(first[2]->word(kActionsAt), prm::kForward);
    std::vector<uint32_t> tirs;
    for (size_t i : {0u, 1u})
        tirs.push_back(leads_to(*first[i]) >> 24);
    EXPECT_THAT(tirs, testing::UnorderedElementsAre(prm::kToTir, prm::kToTable));
}

TEST_F(PassthruTest, ItsOtherActionsAreThoseOfARuleThatJumps) {
    const auto mac = std::to_array<uint8_t>({2, 0, 0, 0, 0, 9});
    rte_flow_action_set_mac set{};
    std::ranges::copy(mac, set.mac_addr);
    const rte_flow_action_age age{10, 0, nullptr};
    Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).mark(7);
    rule.action(RTE_FLOW_ACTION_TYPE_COUNT)
        .action(RTE_FLOW_ACTION_TYPE_AGE, &age)
        .action(RTE_FLOW_ACTION_TYPE_SET_MAC_DST, &set);
    rte_flow* const made_rule = create(at(1, 0, passing(rule)));
    ASSERT_NE(made_rule, nullptr) << error.message;
    EXPECT_EQ(entries(41)[0]->word(kActionsAt), prm::kForward | prm::kCount | prm::kModifyHeader);
    // Later rules match the mark: two commands for the address, and one for the mark.
    ASSERT_THAT(made(0x940), SizeIs(1));
    EXPECT_EQ(made(0x940)[0]->word(12), 3u);
    EXPECT_TRUE(device.rx_queues.marks);
}

TEST_F(PassthruTest, StagesGoInWhateverOrderTheirRulesGo) {
    std::array<int, 5> order{0, 1, 2, 3, 4};
    do {
        std::array<rte_flow*, 5> rules{
            create(at(1, 1, passing())), create(at(1, 5, passing())),
            create(at(1, 1,
                      passing(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4)))),
            create(at(1, 3, udp_to(53, 1))), create(at(1, 9, udp_to(53, 1)))};
        ASSERT_THAT(rules, testing::Not(testing::Contains(nullptr))) << error.message;
        ASSERT_THAT(levels(), ElementsAre(41, 42, 43));
        for (size_t gone = 0; gone < order.size(); ++gone) {
            ASSERT_EQ(table.destroy(rules[static_cast<size_t>(order[gone])], &error), 0);
            const auto left = [&](std::initializer_list<int> any) {
                return std::any_of(order.begin() + static_cast<ptrdiff_t>(gone) + 1, order.end(),
                                   [&](int each) { return std::ranges::count(any, each) != 0; });
            };
            const size_t behind = left({1, 4}) ? 2u : left({0, 2, 3}) ? 1u : 0u;
            const size_t kept = gone + 1 < order.size() ? behind + 1 : 0;
            ASSERT_THAT(levels(), SizeIs(AllOf(Le(kept), testing::Ge(behind))));
            ASSERT_THAT(made(kEntry), SizeIs(order.size() - gone - 1 + behind));
        }
    } while (std::ranges::next_permutation(order).found);
}

TEST_F(PassthruTest, RulesOfLowerPriorityComeAfterIt) {
    rte_flow* const low = create(at(1, 9, udp_to(53, 1)));
    ASSERT_NE(low, nullptr);
    rte_flow* const lower = create(at(1, 10, udp_to(53, 1)));
    EXPECT_THAT(refused(at(1, 3, passing())),
                HasSubstr("2 rules are of lower priority there already"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY);
    EXPECT_THAT(levels(), ElementsAre(41));
    table.destroy(lower, &error);
    EXPECT_THAT(refused(at(1, 8, passing())), HasSubstr("1 rule is of lower priority"));
    ASSERT_NE(create(at(1, 9, passing())), nullptr) << error.message; // the same one
    table.destroy(low, &error);
    EXPECT_THAT(refused(at(1, 8, passing())),
                HasSubstr("1 rule is of lower priority")); // it passes
    ASSERT_NE(
        create(
            at(1, 9, passing(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4)))),
        nullptr)
        << error.message;
}

TEST_F(PassthruTest, AStageBeginsEarlierIfNothingIsInBetween) {
    rte_flow* const passes = create(at(1, 9, passing()));
    ASSERT_NE(create(at(1, 20, udp_to(53, 1))), nullptr) << error.message;
    ASSERT_NE(create(at(1, 2, udp_to(53, 1))), nullptr) << error.message;
    table.destroy(passes, &error);
    EXPECT_THAT(levels(), ElementsAre(41, 42)); // of the last rule
    EXPECT_THAT(refused(at(1, 1, passing())), HasSubstr("1 rule is of lower priority"));
    ASSERT_NE(create(at(1, 5, passing())), nullptr) << error.message;
    ASSERT_NE(create(at(1, 7, udp_to(53, 1))), nullptr) << error.message;
    EXPECT_THAT(levels(), ElementsAre(41, 42));
    EXPECT_THAT(entries(42), SizeIs(2));
}

TEST_F(PassthruTest, EachStageTakesALevel) {
    for (const uint32_t priority : {0u, 1u})
        ASSERT_NE(create(at(20, priority, passing())), nullptr) << error.message;
    EXPECT_THAT(levels(), ElementsAre(60, 61, 62));
    EXPECT_THAT(refused(at(20, 2, passing())), HasSubstr("group 20 has 2 such levels"));
    EXPECT_THAT(levels(), ElementsAre(60, 61, 62));
    EXPECT_THAT(refused(at(22, 2, passing())), HasSubstr("group 22 has 0 such levels"));
    EXPECT_THAT(refused(at(23, 2, passing())), HasSubstr("there is none behind group 22"));
    EXPECT_THAT(refused(passing()), HasSubstr("into a group of 1 … 22, and jump there"));
    EXPECT_THAT(refused(at(1, 0, passing(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).queue(1)))),
                HasSubstr("the rule has queue already; packets have one destination"));
    ASSERT_NE(create(at(20, 2, udp_to(53, 1))), nullptr) << error.message;
}

TEST_F(PassthruTest, AJumpFromALaterStageLeadsToAnyHigherGroup) {
    constexpr size_t kFlagsAt = offsetof(prm::SetFteIn, flags);
    for (const uint32_t priority : {0u, 1u})
        ASSERT_NE(create(at(1, priority, passing())), nullptr) << error.message;
    for (const uint32_t group : {2u, 3u, 4u}) {
        const rte_flow_action_jump conf{group};
        Rule jump = Rule().item(RTE_FLOW_ITEM_TYPE_ETH);
        jump.action(RTE_FLOW_ACTION_TYPE_JUMP, &conf);
        rte_flow* const rule = create(at(1, 2, jump)); // in a table at level 43
        ASSERT_NE(rule, nullptr) << error.message;
        const DevxObject& entry = *made(kEntry).back();
        EXPECT_EQ(entry.word(kFlagsAt), group < 4 ? prm::kAnyLevel : 0u);
        table.destroy(rule, &error);
    }
}

TEST_F(PassthruTest, AFailureLeavesThingsAsTheyWere) {
    ASSERT_NE(create(at(1, 0, passing())), nullptr) << error.message;
    ASSERT_NE(create(at(1, 1, udp_to(53, 1))), nullptr) << error.message;
    const size_t before = device.devx_objects.size();
    int failures = 0;
    for (int nth = 2;; ++nth) { // the first table is an attempt at a large one
        device.fail_call(nth, ENOSPC);
        if (create(at(1, 2, passing())) != nullptr) break;
        ++failures;
        EXPECT_EQ(device.devx_objects.size(), before) << nth;
    }
    EXPECT_GE(failures, 4); // the way to the next table, and the rule, each with a range
    EXPECT_THAT(levels(), ElementsAre(41, 42, 43));
}

TEST_F(PassthruTest, ValidationLeavesNothing) {
    const Rule rule = at(1, 0, passing());
    EXPECT_EQ(validate(rule), 0);
    EXPECT_THAT(made(kTable), IsEmpty());
    ASSERT_NE(create(rule), nullptr) << error.message;
    const size_t before = device.devx_objects.size();
    EXPECT_EQ(validate(at(1, 4, passing())), 0);
    EXPECT_EQ(device.devx_objects.size(), before);
}

TEST_F(PassthruTest, TheyComeAndGoWithThePort) {
    ASSERT_NE(create(at(1, 0, passing())), nullptr) << error.message;
    ASSERT_NE(create(at(1, 1, udp_to(53, 1))), nullptr) << error.message;
    table.stop();
    EXPECT_THAT(made(kTable), IsEmpty());
    ASSERT_NE(create(at(1, 5, passing())), nullptr) << error.message;
    ASSERT_NE(create(at(1, 6, udp_to(53, 1))), nullptr) << error.message;
    EXPECT_THAT(refused(at(1, 4, passing())), HasSubstr("1 rule is of lower priority"));
    ASSERT_TRUE(table.start());
    EXPECT_THAT(levels(), ElementsAre(41, 42, 43));
    EXPECT_THAT(entries(41), SizeIs(2));
    EXPECT_THAT(entries(42), SizeIs(3));
    EXPECT_EQ(leads_to(*entries(42)[2]), to_table(43));
    EXPECT_THAT(entries(43), SizeIs(1));
}

TEST_F(PassthruTest, AnUpdateBeginsAndEndsIt) {
    rte_flow* const rule = create(at(1, 3, udp_to(53, 1)));
    ASSERT_NE(rule, nullptr) << error.message;
    const rte_flow_action pass[] = {{RTE_FLOW_ACTION_TYPE_PASSTHRU, nullptr}, {}};
    ASSERT_EQ(table.update_actions(rule, pass, &error), 0) << error.message;
    EXPECT_THAT(levels(), ElementsAre(41, 42));
    EXPECT_THAT(entries(41), SizeIs(2));
    ASSERT_EQ(table.update_actions(rule, pass, &error), 0) << error.message;
    EXPECT_THAT(levels(), ElementsAre(41, 42));
    const Rule queue = udp_to(53, 1);
    ASSERT_EQ(table.update_actions(rule, queue.actions(), &error), 0) << error.message;
    EXPECT_THAT(levels(), ElementsAre(41));
    EXPECT_THAT(made(kEntry), SizeIs(1));
    ASSERT_NE(create(at(1, 4, udp_to(53, 1))), nullptr) << error.message;
    EXPECT_LT(table.update_actions(rule, pass, &error), 0);
    EXPECT_THAT(error.message, HasSubstr("1 rule is of lower priority"));
    EXPECT_THAT(levels(), ElementsAre(41));
}

TEST_F(PassthruTest, SentPacketsPassOnToo) {
    ASSERT_NE(create(at(1, 0, passing())), nullptr) << error.message;
    ASSERT_NE(create(at(1, 0, sent(passing()))), nullptr) << error.message;
    ASSERT_NE(
        create(
            at(1, 1, sent(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).action(RTE_FLOW_ACTION_TYPE_DROP)))),
        nullptr)
        << error.message;
    EXPECT_THAT(levels(), ElementsAre(41, 41, 42, 42));
}

class SoftwarePassthruTest : public SoftwareTest {
  protected:
    /// The levels of the tables that entries by commands are in.
    std::vector<uint32_t> levels_of_entries() const {
        std::map<uint32_t, uint32_t> levels;
        std::vector<uint32_t> found;
        for (const auto& each : device.devx_objects)
            if (each->opcode() == kTable) levels[each->number] = each->word(24) >> 16 & 0xff;
        for (const auto& each : device.devx_objects)
            if (each->opcode() == kEntry) found.push_back(levels[each->word(kTableAt)]);
        std::ranges::sort(found);
        return found;
    }
    /// Group, stage and priority of the rules in the device, and where they lead: −1 to a queue.
    std::vector<std::array<int, 3>> stages() const {
        std::vector<std::array<int, 3>> found;
        for (const auto& rule : dr->rules) {
            if (rule->group() == 0) continue;
            const auto* const to = rule->does(Kind::table);
            found.push_back({static_cast<int>(rule->group()), static_cast<int>(rule->stage()),
                             to != nullptr ? static_cast<int>(to->table->stage()) : -1});
        }
        std::ranges::sort(found);
        return found;
    }
};

TEST_F(SoftwarePassthruTest, StagesAreServedByEither) {
    ASSERT_NE(create(jump(2)), nullptr) << error.message;
    ASSERT_NE(create(at(2, 3, passing())), nullptr) << error.message;
    ASSERT_NE(create(at(2, 4, udp_to(53, 1))), nullptr) << error.message;
    auto* const to = marking_table(7);
    ASSERT_NE(to, nullptr) << error.message;
    const std::vector<std::array<int, 3>> wanted{{2, 0, 1}, {2, 0, 1}, {2, 1, -1}};
    EXPECT_EQ(stages(), wanted);
    EXPECT_TRUE(std::ranges::none_of(device.devx_objects, [](const auto& each) {
        return each->opcode() == kEntry || each->opcode() == kTable;
    }));
    EXPECT_EQ(std::ranges::count_if(dr->rules,
                                    [](const auto& each) {
                                        return each->matcher->priority == GroupTable::kLastPlace;
                                    }),
              1);
    ASSERT_NE(create(tag_off(9)), nullptr) << error.message;
    EXPECT_THAT(stages(), IsEmpty());
    EXPECT_THAT(levels_of_entries(), ElementsAre(42, 42, 43, 49, 49)); // tags of either kind
}

TEST_F(SoftwarePassthruTest, ATablesStageIsThereBeforeItsRules) {
    rte_flow* const early = create(at(1, 1, udp_to(53, 1)));
    ASSERT_NE(early, nullptr);
    const Rule pass = Rule().mark(3).action(RTE_FLOW_ACTION_TYPE_PASSTHRU);
    EXPECT_EQ(create_table(pass, pass), nullptr);
    EXPECT_THAT(error.message, HasSubstr("1 rule is of lower priority there already"));
    table->destroy(early, &error);
    auto* const to = create_table(pass, pass);
    ASSERT_NE(to, nullptr) << error.message;
    rte_flow* const low = create(at(1, 1, udp_to(53, 1)));
    ASSERT_NE(low, nullptr) << error.message;
    rte_flow* const rule =
        enqueue(to, Rule(flow(1, 2)).mark(3).action(RTE_FLOW_ACTION_TYPE_PASSTHRU));
    ASSERT_NE(rule, nullptr) << error.message;
    EXPECT_EQ(pull(), 1);
    const std::vector<std::array<int, 3>> wanted{{1, 0, 1}, {1, 0, 1}, {1, 1, -1}};
    EXPECT_EQ(stages(), wanted);
    table->destroy(rule, &error);
    table->destroy(low, &error);
    EXPECT_EQ(stages(), (std::vector<std::array<int, 3>>{{1, 0, 1}}));
    EXPECT_EQ(table->destroy(to, &error), 0) << error.message;
    EXPECT_THAT(dr->tables, IsEmpty());
}

} // namespace
} // namespace rawqp::test
