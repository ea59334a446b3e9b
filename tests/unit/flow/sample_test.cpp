// SPDX-License-Identifier: BSD-3-Clause
// Action sample: the device's sampler, the tables that it leads to, and what is refused.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/templates.hpp"

#include <deque>

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using verbs_test::DevxObject;

constexpr uint16_t kTable = 0x930, kEntry = 0x936, kTir = 0x900, kCounter = 0x939, kSampler = 0xa00;
constexpr size_t kInTable = 20, kTagAt = 72, kActionsAt = 76, kListAt = 832;
constexpr uint32_t kForward = 4, kDrop = 2, kCount = 8, kPop = 0x80;
constexpr uint32_t kToTir = 2u << 24, kToSampler = 6u << 24;

class SampleTest : public TemplateTest {
  protected:
    SampleTest() : TemplateTest(FlowEngine::mlx5) {
        configure(8);
        start();
    }
    ~SampleTest() override { table.flush(nullptr); }

    std::vector<const DevxObject*> made(uint16_t opcode) const {
        std::vector<const DevxObject*> found;
        for (const auto& object : device.devx_objects)
            if (object->opcode() == opcode) found.push_back(object.get());
        return found;
    }
    const DevxObject* numbered(uint16_t opcode, uint32_t number) const {
        for (const DevxObject* const object : made(opcode))
            if (object->number == number) return object;
        return nullptr;
    }
    const DevxObject& entry_in(uint32_t of_table) const {
        for (const DevxObject* const entry : made(kEntry))
            if (entry->word(kInTable) == of_table) return *entry;
        throw std::logic_error("no such entry");
    }
    /// Adds the action; the actions for the copies live as long as the test.
    Rule sampling(Rule rule, Rule copies, uint32_t ratio = 4) {
        kept_.push_back(std::move(copies));
        const rte_flow_action_sample conf{ratio, kept_.back().actions()};
        return rule.action(RTE_FLOW_ACTION_TYPE_SAMPLE, &conf);
    }
    static Rule in_group(uint32_t group) {
        Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_IPV4);
        rule.attr.group = group;
        return rule;
    }
    static uint32_t level_of(const DevxObject& of_table) { return of_table.word(24) >> 16 & 0xff; }

  private:
    std::deque<Rule> kept_;
};

TEST_F(SampleTest, AnEntryLeadsToTheSamplerAndTheRestStandsBehindIt) {
    auto vlan = zeroed<rte_flow_item_vlan>();
    vlan.tci = rte_cpu_to_be_16(5);
    Rule tagged = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_VLAN, &vlan);
    tagged.attr.group = 1;
    const Rule copies = Rule().queue(1).mark(9).action(RTE_FLOW_ACTION_TYPE_COUNT);
    Rule rule = sampling(tagged, copies);
    rule.action(RTE_FLOW_ACTION_TYPE_OF_POP_VLAN).queue(2).mark(7);
    ASSERT_NE(create(rule), nullptr) << error.message;
    ASSERT_THAT(made(kSampler), SizeIs(1));
    const DevxObject& sampler = *made(kSampler)[0];
    EXPECT_EQ(sampler.word(4), 0x20u); // its object type
    EXPECT_EQ(sampler.word(24), 63u << 16 | 1);
    EXPECT_EQ(sampler.word(28), 4u);
    const DevxObject* const copied = numbered(kTable, sampler.word(32));
    const DevxObject* const all = numbered(kTable, sampler.word(36));
    ASSERT_TRUE(copied != nullptr && all != nullptr && copied != all);
    EXPECT_EQ(level_of(*copied), 63u);
    EXPECT_EQ(level_of(*all), 63u);

    const DevxObject& of_copies = entry_in(copied->number);
    EXPECT_EQ(of_copies.word(kTagAt), tag_of_mark(9));
    EXPECT_EQ(of_copies.word(kActionsAt), kForward | kCount);
    ASSERT_THAT(made(kTir), SizeIs(2));
    const DevxObject* const to = numbered(kTir, of_copies.word(kListAt) & 0xffffff);
    ASSERT_NE(to, nullptr);
    EXPECT_EQ(of_copies.word(kListAt), kToTir | to->number);
    EXPECT_EQ(to->word(60), 1u); // the queue's WQ number
    EXPECT_EQ(of_copies.word(kListAt + 8), made(kCounter)[0]->number);
    const DevxObject& of_all = entry_in(all->number);
    EXPECT_EQ(of_all.word(kTagAt), tag_of_mark(7));
    EXPECT_EQ(of_all.word(kActionsAt), kForward | kPop) << "copies keep their tags";
    EXPECT_EQ(numbered(kTir, of_all.word(kListAt) & 0xffffff)->word(60), 2u);
    for (const DevxObject* const entry : made(kEntry)) {
        if (entry == &of_copies || entry == &of_all) continue;
        EXPECT_EQ(entry->word(kListAt), kToSampler | sampler.number);
        EXPECT_EQ(entry->word(kActionsAt), kForward);
        EXPECT_EQ(entry->word(kTagAt), 0u);
    }
    EXPECT_TRUE(device.rx_queues.marks);
}

TEST_F(SampleTest, FromAJumpAllGoOnToTheGroup) {
    const rte_flow_action_jump jump{3};
    ASSERT_NE(create(sampling(in_group(1).action(RTE_FLOW_ACTION_TYPE_JUMP, &jump),
                              Rule().queue(1).mark(9))),
              nullptr)
        << error.message;
    ASSERT_THAT(made(kTable), SizeIs(3)) << "two groups and the copies";
    const DevxObject* const group = numbered(kTable, made(kSampler)[0]->word(36));
    EXPECT_EQ(level_of(*group), 40u + 3);
    EXPECT_TRUE(device.rx_queues.marks) << "of copies";
}

TEST_F(SampleTest, FlowsOfGroup0LeadToSuchAnEntry) {
    ASSERT_NE(create(sampling(in_group(0).action(RTE_FLOW_ACTION_TYPE_DROP), Rule().queue(0))),
              nullptr)
        << error.message;
    ASSERT_THAT(device.flows, SizeIs(1));
    ASSERT_THAT(device.flows[0]->actions, SizeIs(1));
    const DevxObject* const to = DevxObject::of(device.flows[0]->actions[0].obj);
    EXPECT_EQ(level_of(*to), 40u);
    EXPECT_EQ(entry_in(to->number).word(kListAt), kToSampler | made(kSampler)[0]->number);
    EXPECT_EQ(entry_in(made(kSampler)[0]->word(36)).word(kActionsAt), kDrop);
}

TEST_F(SampleTest, TheCounterOfCopiesIsAskedForUnlessTheRuleHasOne) {
    rte_flow* const rule =
        create(sampling(in_group(1).queue(0), Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT)));
    ASSERT_NE(rule, nullptr) << error.message;
    device.devx_answer = hex("0000000000000000 0000000000000004 0000000000000190");
    const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    rte_flow_query_count result{};
    ASSERT_EQ(table.query(rule, &action, &result, &error), 0) << error.message;
    EXPECT_EQ(result.hits, 4u);
    const rte_flow_indir_action_conf directions{1, 0, 0};
    rte_flow_action_handle* const shared = table.share(&directions, &action, &error);
    ASSERT_NE(shared, nullptr) << error.message;
    Rule both = sampling(in_group(2).queue(0).action(RTE_FLOW_ACTION_TYPE_COUNT),
                         Rule().queue(1).indirect(shared));
    ASSERT_NE(create(both), nullptr) << error.message;
    size_t counting = 0;
    for (const DevxObject* const entry : made(kEntry))
        counting += (entry->word(kActionsAt) & kCount) != 0;
    EXPECT_EQ(counting, 3u);
    table.flush(nullptr);
    EXPECT_EQ(table.unshare(shared, &error), 0);
}

/// Those of copies and those of the rule's packets are not added up.
TEST_F(SampleTest, OnlyACountOfTheSamePacketsGoesOn) {
    const Rule counted = Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT);
    rte_flow* const rule = create(sampling(in_group(1).queue(0), counted));
    ASSERT_NE(rule, nullptr) << error.message;
    const auto counter_after = [&](const Rule& next) {
        EXPECT_EQ(table.update_actions(rule, next.actions(), &error), 0) << error.message;
        EXPECT_THAT(made(kCounter), SizeIs(1));
        return made(kCounter).at(0)->number;
    };
    const uint32_t of_copies = made(kCounter).at(0)->number;
    EXPECT_EQ(counter_after(sampling(Rule().queue(2), counted, 8)), of_copies);
    const Rule counting = Rule().queue(2).action(RTE_FLOW_ACTION_TYPE_COUNT);
    const uint32_t of_rule = counter_after(counting);
    EXPECT_NE(of_rule, of_copies);
    EXPECT_EQ(counter_after(counting), of_rule);
    EXPECT_NE(counter_after(sampling(Rule().queue(2), counted)), of_rule);
}

TEST_F(SampleTest, AFailureLeavesNothing) {
    const Rule rule = sampling(in_group(1).queue(2).mark(7), Rule().queue(1));
    ASSERT_NE(create(rule), nullptr) << error.message; // creates the transport domain, once
    table.flush(nullptr);
    const size_t before = device.devx_objects.size();
    int failures = 0;
    for (int nth = 2;; ++nth) { // if the first table fails, a smaller one is created
        device.fail_call(nth, ENOMEM);
        if (create(rule) != nullptr) break;
        ++failures;
        EXPECT_EQ(device.devx_objects.size(), before) << nth;
    }
    // A TIR, a table, a group and an entry each, twice; the sampler; a group and an entry.
    EXPECT_EQ(failures, 11);
    EXPECT_THAT(made(kSampler), SizeIs(1));
}

TEST_F(SampleTest, CopiesHaveAShareInTheNamesOfTunnels) {
    Rule rule =
        sampling(in_group(0).queue(2).item(RTE_FLOW_ITEM_TYPE_UDP).item(RTE_FLOW_ITEM_TYPE_VXLAN),
                 Rule().queue(1));
    ASSERT_NE(create(rule), nullptr) << error.message;
    EXPECT_EQ(device.rx_queues.tunnels[1], uint32_t{RTE_PTYPE_TUNNEL_VXLAN});
    EXPECT_EQ(device.rx_queues.tunnels[2], uint32_t{RTE_PTYPE_TUNNEL_VXLAN});
}

TEST_F(SampleTest, Refusals) {
    const auto of_copies = [&](Rule copies, uint32_t ratio = 1) {
        return refused(sampling(in_group(1).queue(0), std::move(copies), ratio));
    };
    EXPECT_THAT(of_copies(Rule().queue(1), 0), HasSubstr("a ratio of at least 1"));
    EXPECT_THAT(of_copies(Rule().mark(1)), HasSubstr("no destination: add action queue"));
    EXPECT_THAT(of_copies(Rule().queue(9)), HasSubstr("no Rx queue 9"));
    EXPECT_THAT(of_copies(Rule().action(RTE_FLOW_ACTION_TYPE_DROP)),
                HasSubstr("drop is not for copies: dropping copies is making none"));
    const rte_flow_action_port_id port{};
    EXPECT_THAT(of_copies(Rule().action(RTE_FLOW_ACTION_TYPE_PORT_ID, &port)),
                HasSubstr("port_id is not for copies: the port has no embedded switch"));
    EXPECT_THAT(of_copies(Rule().rss({0, 1})), HasSubstr("rss is not for copies: they go to one"));
    EXPECT_THAT(of_copies(Rule().queue(0).queue(1)), HasSubstr("has queue already"));
    const rte_flow_action_age age{5, 0, nullptr};
    const rte_flow_action conf{RTE_FLOW_ACTION_TYPE_AGE, &age};
    const rte_flow_indir_action_conf directions{1, 0, 0};
    rte_flow_action_handle* const aging = table.share(&directions, &conf, &error);
    ASSERT_NE(aging, nullptr) << error.message;
    EXPECT_THAT(of_copies(Rule().queue(1).indirect(aging)), HasSubstr("is not for copies"));
    EXPECT_EQ(table.unshare(aging, &error), 0);
    rte_flow_action_handle* const spread =
        table.share(&directions, Rule().rss({0, 1}).actions(), &error);
    ASSERT_NE(spread, nullptr) << error.message;
    EXPECT_THAT(of_copies(Rule().indirect(spread)), HasSubstr("is not for copies"));
    EXPECT_EQ(table.unshare(spread, &error), 0);

    const Rule copies = Rule().queue(1);
    EXPECT_THAT(refused(sampling(sampling(in_group(1).queue(0), copies), copies)),
                HasSubstr("has one already"));
    const Rule counted = Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT);
    EXPECT_THAT(refused(sampling(in_group(1).queue(0).action(RTE_FLOW_ACTION_TYPE_COUNT), counted)),
                HasSubstr("use an indirect count for the copies"));
    EXPECT_THAT(
        refused(sampling(in_group(1).queue(0).action(RTE_FLOW_ACTION_TYPE_AGE, &age), counted)),
        HasSubstr("use an indirect count for the copies"));
    const rte_flow_action_jump jump{2};
    EXPECT_THAT(
        refused(sampling(in_group(1).mark(1).action(RTE_FLOW_ACTION_TYPE_JUMP, &jump), copies)),
        HasSubstr("for a rule of the group that the others jump to"));
    EXPECT_THAT(refused(sampling(in_group(1).action(RTE_FLOW_ACTION_TYPE_JUMP, &jump), copies)
                            .action(RTE_FLOW_ACTION_TYPE_DEC_TTL)),
                HasSubstr("for a rule of the group that the others jump to"));
    EXPECT_THAT(
        refused(sampling(in_group(1).queue(0).action(RTE_FLOW_ACTION_TYPE_DEC_TTL), copies)),
        HasSubstr("of packets as they came, and an action before it changes these: put sample"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ACTION);
    EXPECT_THAT(refused(sampling(in_group(23).queue(0), copies)),
                HasSubstr("none behind group 23: use a lower one"));
    Rule sent = in_group(1);
    sent.attr.ingress = 0;
    sent.attr.egress = 1;
    EXPECT_THAT(refused(sampling(sent, copies)), HasSubstr("sample is for received packets"));
    EXPECT_THAT(
        refused_actions(sampling(Rule().queue(0), copies), sampling(Rule().queue(0), copies)),
        HasSubstr("not for templates"));
}

class SampleByVerbsTest : public FlowTableTest {};

TEST_F(SampleByVerbsTest, HasNoWords) {
    const Rule copies = Rule().queue(1);
    const rte_flow_action_sample conf{1, copies.actions()};
    EXPECT_THAT(refused(udp_to(53, 0).action(RTE_FLOW_ACTION_TYPE_SAMPLE, &conf)),
                HasSubstr("verbs flow specs have one destination"));
}

} // namespace
} // namespace rawqp::test
