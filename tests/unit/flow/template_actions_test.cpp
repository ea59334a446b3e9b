// SPDX-License-Identifier: BSD-3-Clause
// Actions of rules from templates: fixed or given per rule, with a counter for each rule, on either
// engine, without an allocation per rule.
#include "drivers/net/rawqp/ethdev/flow/age.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using verbs_test::DevxObject;

constexpr uint16_t kEntry = 0x936, kCounter = 0x939, kModify = 0x940, kTable = 0x930;

/// On the engine that can express all actions.
class TemplateActionsTest : public TemplateTest {
  protected:
    TemplateActionsTest() : TemplateTest(FlowEngine::mlx5) {
        configure(1024);
        start();
        device.flows.reserve(8192); // later allocations are for single objects
        device.devx_objects.reserve(8192);
    }
    std::vector<const DevxObject*> made(uint16_t opcode) const {
        std::vector<const DevxObject*> found;
        for (const auto& object : device.devx_objects)
            if (object->opcode() == opcode) found.push_back(object.get());
        return found;
    }
    /// A table whose rules all have the same actions.
    rte_flow_template_table* fixed(const Rule& actions, uint32_t group = 0, uint32_t rules = 4) {
        return table_of(pattern_of(flow(0, 0)), actions_of(actions, actions), rules, group);
    }
    static Rule jump(uint32_t group) {
        const rte_flow_action_jump conf{group};
        return Rule().action(RTE_FLOW_ACTION_TYPE_JUMP, &conf);
    }
    /// Pushes a tag with this VLAN ID.
    static Rule& push_vlan(Rule& rule, uint16_t id) {
        const rte_flow_action_of_push_vlan type{RTE_BE16(RTE_ETHER_TYPE_VLAN)};
        const rte_flow_action_of_set_vlan_vid vid{rte_cpu_to_be_16(id)};
        return rule.action(RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN, &type)
            .action(RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID, &vid);
    }
    uint64_t hits(rte_flow* rule) {
        const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
        rte_flow_query_count result{};
        EXPECT_EQ(table.query(rule, &action, &result, &error), 0) << error.message;
        return result.hits;
    }
    rte_flow_action_handle* share(rte_flow_action_type type, const void* conf = nullptr) {
        rte_flow_indir_action_conf directions{};
        directions.ingress = 1;
        const rte_flow_action action{type, conf};
        return table.share(&directions, &action, &error);
    }
    rte_flow_action_handle* share_count() { return share(RTE_FLOW_ACTION_TYPE_COUNT); }
    void take_results() {
        std::array<rte_flow_op_result, 64> results{};
        for (const uint32_t queue : {0u, 1u})
            while (table.pull(queue, results, &error) > 0)
                ;
    }
    void no_allocation(rte_flow_template_table* of, const Rule& actions, size_t device_allocates);
};

/// The actions of a device rule, without their values.
std::vector<int> doings(const verbs_test::Flow& flow) {
    std::vector<int> types;
    for (const mlx5dv_flow_action_attr& action : flow.actions)
        types.push_back(action.type);
    return types;
}

TEST_F(TemplateActionsTest, OfTheTemplateAreThoseOfCreate) {
    const std::array<uint8_t, 6> mac = {2, 0, 0, 0, 0, 9};
    const Rule actions[] = {
        Rule().action(RTE_FLOW_ACTION_TYPE_DROP),
        Rule().action(RTE_FLOW_ACTION_TYPE_DROP).action(RTE_FLOW_ACTION_TYPE_COUNT),
        Rule().action(RTE_FLOW_ACTION_TYPE_FLAG).queue(2),
        Rule().action(RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &mac).mark(5).queue(1),
        jump(3),
    };
    for (const Rule& each : actions) {
        auto* const of = fixed(each);
        ASSERT_NE(of, nullptr) << error.message;
        // Rules need not give these actions again.
        rte_flow* const rule = table.async_create(0, of, flow(1, 1).pattern(), 0, Rule().actions(),
                                                  0, nullptr, &error);
        ASSERT_NE(rule, nullptr) << error.message;
        const auto by_template = doings(*device.flows[0]);
        EXPECT_EQ(table.destroy(rule, &error), 0);
        Rule whole = flow(1, 1);
        for (const auto* action = each.actions(); action->type != RTE_FLOW_ACTION_TYPE_END;
             ++action)
            whole.as(*action);
        rte_flow* const usual = create(whole);
        ASSERT_NE(usual, nullptr) << error.message;
        EXPECT_EQ(doings(*device.flows[0]), by_template);
        EXPECT_EQ(table.destroy(usual, &error), 0);
        EXPECT_EQ(table.destroy(of, &error), 0);
    }
    EXPECT_THAT(made(kCounter), IsEmpty());
}

/// Also where not all rules get to another level: those that did are removed from there.
TEST_F(TemplateActionsTest, WhatLeadsToATableGoesBeforeItsEntries) {
    auto eth = zeroed<rte_flow_item_eth>(), mask = eth;
    mask.hdr.dst_addr = all_ones<rte_ether_addr>();
    const auto to = [&](uint8_t address) {
        eth.hdr.dst_addr.addr_bytes[5] = address;
        return Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask);
    };
    const Rule spread = Rule().rss({0, 1}, RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    constexpr size_t kClasses = 3;
    auto* const of = table_of(pattern_of(to(0)), actions_of(spread, spread), 2);
    ASSERT_NE(of, nullptr) << error.message;

    const auto leading = [&] {
        return static_cast<size_t>(std::ranges::count_if(
            device.flows, [](const auto& each) { return each->qp == nullptr; }));
    };
    size_t before = 0, removed = 0;
    device.on_change = [&] {
        const size_t now = leading();
        if (now < before) {
            EXPECT_GE(made(kEntry).size(), kClasses * before);
            ++removed;
        }
        before = now;
    };
    for (int nth = 1;; ++nth) {
        for (const uint8_t address : {2, 4})
            ASSERT_NE(table.async_create(0, of, to(address).pattern(), 0, spread.actions(), 0,
                                         nullptr, &error),
                      nullptr)
                << error.message;
        take_results();
        rte_flow* const other =
            create(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4).queue(2));
        ASSERT_NE(other, nullptr) << error.message;
        device.fail_call(nth, ENOMEM);
        // The other rule's replacement needs the level of those two, which move on.
        (void)table.update_actions(other, Rule().queue(3).actions(), &error);
        EXPECT_EQ(leading(), 2u);
        const bool done = device.failed().empty();
        device.fail_call(0, 0);
        EXPECT_EQ(table.flush(&error), 0);
        if (done) break;
    }
    device.on_change = nullptr;
    EXPECT_GT(removed, 20u);
}

/// rte_flow_conv copies neither the header of a raw_encap nor a value behind a pointer.
TEST_F(TemplateActionsTest, WhatActionsPointToIsTheTemplatesOwn) {
    std::vector<uint8_t> header(14, 3), mac = {2, 0, 0, 0, 0, 9};
    rte_flow_action_raw_encap put{header.data(), nullptr, header.size()};
    rte_flow_action_modify_field modify{};
    modify.dst.field = RTE_FLOW_FIELD_MAC_SRC;
    modify.src.field = RTE_FLOW_FIELD_POINTER;
    modify.src.pvalue = mac.data();
    modify.width = 48;
    const Rule actions = Rule()
                             .action(RTE_FLOW_ACTION_TYPE_RAW_DECAP)
                             .action(RTE_FLOW_ACTION_TYPE_RAW_ENCAP, &put)
                             .action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &modify)
                             .queue(1);
    auto* const made = actions_of(actions, actions);
    for (auto* const gone : {&header, &mac})
        std::ranges::fill(*gone, uint8_t{0xee});
    const Rule pattern = Rule()
                             .item(RTE_FLOW_ITEM_TYPE_IPV4)
                             .item(RTE_FLOW_ITEM_TYPE_GRE)
                             .item(RTE_FLOW_ITEM_TYPE_IPV4);
    auto* const of = table_of(pattern_of(pattern), made, 4);
    ASSERT_NE(of, nullptr) << error.message;
    ASSERT_NE(enqueue(of, Rule(pattern).as(*actions.actions())), nullptr) << error.message;
    ASSERT_THAT(device.flow_actions, SizeIs(2));
    EXPECT_EQ(device.flow_actions[0]->bytes, hex("1001 0000 02000000 1002 0010 00000009"));
    EXPECT_EQ(device.flow_actions[1]->bytes, Bytes(14, 3));
}

TEST_F(TemplateActionsTest, ARulePutsTagsOn) {
    Rule actions;
    push_vlan(actions, 5).queue(1);
    for (const uint32_t group : {0u, 1u}) {
        auto* const of = fixed(actions, group);
        ASSERT_NE(of, nullptr) << error.message;
        ASSERT_NE(enqueue(of, flow(1, 1).queue(1)), nullptr) << error.message;
        EXPECT_EQ(made(kEntry)[group]->word(64), 0x81000005u);
        EXPECT_THAT(device.flows, SizeIs(1)); // in group 0, leading there
    }
}

TEST_F(TemplateActionsTest, ATagHasWhatWasSetLast) {
    const rte_flow_action_of_push_vlan type{RTE_BE16(RTE_ETHER_TYPE_QINQ)};
    const rte_flow_action_of_set_vlan_vid ids[] = {{RTE_BE16(0xfff)}, {RTE_BE16(5)}};
    const rte_flow_action_of_set_vlan_pcp priorities[] = {{7}, {2}};
    Rule actions = Rule().action(RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN, &type);
    for (const size_t i : {0, 1})
        actions.action(RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP, &priorities[i])
            .action(RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID, &ids[i]);
    auto* const of = fixed(actions.queue(1), 1);
    ASSERT_NE(of, nullptr) << error.message;
    ASSERT_NE(enqueue(of, flow(1, 1).queue(1)), nullptr) << error.message;
    EXPECT_EQ(made(kEntry)[0]->word(64), 0x88a84005u);
}

TEST_F(TemplateActionsTest, EachRuleJumpsToItsGroup) {
    auto* const of = table_of(pattern_of(flow(0, 0)), actions_of(jump(9), jump(0)), 4, 1);
    ASSERT_NE(of, nullptr) << error.message;
    EXPECT_THAT(made(kTable), IsEmpty()); // that of the trial rule is gone
    const auto to = [&](uint16_t port, uint32_t group) {
        return table.async_create(0, of, flow(1, port).pattern(), 0, jump(group).actions(), 0,
                                  nullptr, &error);
    };
    for (const uint32_t group : {2u, 7u, 2u}) // the third one shares the table of the first
        ASSERT_NE(to(static_cast<uint16_t>(group + made(kEntry).size()), group), nullptr)
            << error.message;
    EXPECT_THAT(made(kTable), SizeIs(3));
    EXPECT_EQ(made(kEntry)[0]->word(832), made(kEntry)[2]->word(832));
    EXPECT_NE(made(kEntry)[0]->word(832), made(kEntry)[1]->word(832));
    EXPECT_EQ(to(99, 1), nullptr);
    EXPECT_THAT(error.message, HasSubstr("from group 1 to 1"));
}

TEST_F(TemplateActionsTest, EachRuleCountsForItself) {
    const Rule actions = Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT);
    auto* const of = fixed(actions, 0, 3);
    ASSERT_NE(of, nullptr) << error.message;
    EXPECT_THAT(made(kCounter), SizeIs(3)); // in advance
    rte_flow* const first = enqueue(of, flow(1, 1));
    rte_flow* const second = enqueue(of, flow(1, 2));
    ASSERT_TRUE(first != nullptr && second != nullptr) << error.message;
    EXPECT_NE(device.flows[0]->actions.back().obj, device.flows[1]->actions.back().obj);
    device.devx_answer = hex("0000000000000000 0000000000000004 0000000000000190");
    EXPECT_EQ(hits(first), 4u);
    // The next rule in this slot starts at zero, and continues counting when it is updated.
    EXPECT_EQ(table.async_destroy(0, first, nullptr, &error), 0);
    rte_flow* const next = enqueue(of, flow(1, 3));
    EXPECT_EQ(next, first);
    EXPECT_EQ(hits(next), 0u);
    device.devx_answer = hex("0000000000000000 0000000000000007 0000000000000190");
    const Rule other = Rule().queue(2).action(RTE_FLOW_ACTION_TYPE_COUNT);
    ASSERT_EQ(table.update_actions(next, other.actions(), &error), 0) << error.message;
    EXPECT_EQ(hits(next), 3u);
    EXPECT_THAT(made(kCounter), SizeIs(3));
    EXPECT_EQ(table.destroy(next, &error), 0);
    rte_flow* const third = enqueue(of, flow(1, 4));
    EXPECT_EQ(third, first);
    EXPECT_EQ(hits(third), 0u);
    EXPECT_EQ(table.destroy(third, &error), 0);
    EXPECT_EQ(table.destroy(second, &error), 0);
    EXPECT_EQ(table.destroy(of, &error), 0);
    EXPECT_THAT(made(kCounter), IsEmpty());
}

TEST_F(TemplateActionsTest, CountersThatTheDeviceDoesNotMakeAreNamed) {
    int named = 0;
    for (int nth = 1;; ++nth) {
        device.fail_call(nth, ENOMEM);
        if (fixed(Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT), 0, 8) != nullptr) break;
        const bool of_a_counter =
            std::string(error.message).find("8 counters, one for each rule") != std::string::npos;
        named += of_a_counter ? 1 : 0;
        EXPECT_THAT(made(kCounter), IsEmpty());
    }
    EXPECT_EQ(named, 8);
}

TEST_F(TemplateActionsTest, RulesGiveTheCountThatTheyShare) {
    auto *const one = share_count(), *const two = share_count();
    // The mask gives the type of the handles that rules provide.
    auto* const of = table_of(pattern_of(flow(0, 0)),
                              actions_of(Rule().queue(1).indirect(nullptr),
                                         Rule().queue(0xffff).action(RTE_FLOW_ACTION_TYPE_COUNT)),
                              4);
    ASSERT_NE(of, nullptr) << error.message;
    ASSERT_NE(enqueue(of, flow(1, 1).queue(1).indirect(one)), nullptr) << error.message;
    ASSERT_NE(enqueue(of, flow(1, 2).queue(1).indirect(two)), nullptr) << error.message;
    EXPECT_NE(device.flows[0]->actions.back().obj, device.flows[1]->actions.back().obj);
    EXPECT_EQ(table.unshare(one, &error), -EBUSY);
    EXPECT_EQ(enqueue(of, flow(1, 3).queue(1).indirect(nullptr)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("with a configuration"));
    auto* const stranger = reinterpret_cast<rte_flow_action_handle*>(this);
    EXPECT_EQ(enqueue(of, flow(1, 3).queue(1).indirect(stranger)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no such action on this port"));
    // A handle in the template applies to all rules, whatever type the mask has.
    const rte_flow_action_count set{1};
    for (const Rule& mask : {Rule().queue(1).indirect(two),
                             Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT, &set)}) {
        auto* const all =
            table_of(pattern_of(flow(0, 0)), actions_of(Rule().queue(1).indirect(two), mask), 4);
        ASSERT_NE(all, nullptr) << error.message;
        rte_flow* const rule = enqueue(all, flow(1, 9).queue(1).indirect(nullptr));
        ASSERT_NE(rule, nullptr) << error.message;
        EXPECT_EQ(device.flows[2]->actions.back().obj, device.flows[1]->actions.back().obj);
        EXPECT_EQ(table.destroy(rule, &error), 0);
        EXPECT_EQ(table.destroy(all, &error), 0);
    }
    table.flush(&error);
    EXPECT_EQ(table.destroy(of, &error), 0);
    EXPECT_EQ(table.unshare(one, &error), 0);
    EXPECT_EQ(table.unshare(two, &error), 0);
}

TEST_F(TemplateActionsTest, RulesGiveTheAgeThatTheyShare) {
    rte_flow_action_age conf{};
    conf.timeout = 10;
    auto *const one = share(RTE_FLOW_ACTION_TYPE_AGE, &conf), *const two = share(
                                                                  RTE_FLOW_ACTION_TYPE_AGE, &conf);
    constexpr auto kAge = RTE_FLOW_ACTION_TYPE_AGE, kCount = RTE_FLOW_ACTION_TYPE_COUNT;
    const auto of_age = [](const Rule& rule, rte_flow_action_handle* age) {
        return Rule(rule).queue(1).indirect(age);
    };
    for (const bool counts : {false, true}) {
        Rule actions = of_age({}, nullptr), masks = Rule().queue(0xffff).action(kAge);
        if (counts) {
            actions.action(kCount);
            masks.action(kCount);
        }
        auto* const of = table_of(pattern_of(flow(0, 0)), actions_of(actions, masks), 4);
        ASSERT_NE(of, nullptr) << error.message;
        ASSERT_NE(enqueue(of, of_age(flow(1, 1), one)), nullptr) << error.message;
        ASSERT_NE(enqueue(of, of_age(flow(1, 2), one)), nullptr) << error.message;
        rte_flow* const other = enqueue(of, of_age(flow(1, 3), two));
        ASSERT_NE(other, nullptr) << error.message;
        EXPECT_EQ(device.flows[0]->actions.back().obj == device.flows[1]->actions.back().obj,
                  !counts);
        EXPECT_NE(device.flows[0]->actions.back().obj, device.flows[2]->actions.back().obj);
        device.devx_answer = hex("0000000000000000 0000000000000004 0000000000000190");
        const auto soon = FlowAge::Clock::now() + std::chrono::seconds(9);
        EXPECT_FALSE(table.look_at_ages(soon)); // they have been hit
        EXPECT_FALSE(table.look_at_ages(soon + std::chrono::seconds(9)));
        if (counts) {
            EXPECT_EQ(hits(other), 4u);
        }
        rte_flow_query_age age{};
        const rte_flow_action query{kAge, nullptr};
        EXPECT_EQ(table.query(other, &query, &age, &error), 0) << error.message;
        EXPECT_EQ(enqueue(of, of_age(flow(1, 4), share_count())), nullptr);
        EXPECT_THAT(error.message, HasSubstr("a count in place of the template's age"));
        device.devx_answer = {};
        table.flush(&error);
        take_results();
        EXPECT_EQ(table.destroy(of, &error), 0);
    }
    const Rule both = Rule().queue(1).indirect(nullptr).indirect(nullptr),
               masks = Rule().queue(0xffff).action(kAge).action(kCount);
    EXPECT_EQ(table_of(pattern_of(flow(0, 0)), actions_of(both, masks), 4), nullptr);
    EXPECT_THAT(error.message, HasSubstr("a rule has one counter"));
}

/// The engine of a table's rules was chosen without their values.
TEST_F(TemplateActionsTest, AValueThatNobodyCanAskForIsRefused) {
    const auto to = [](uint8_t first) {
        auto eth = zeroed<rte_flow_item_eth>(), mask = eth;
        eth.hdr.dst_addr.addr_bytes[0] = first;
        std::fill_n(mask.hdr.dst_addr.addr_bytes, 6, uint8_t{0xff});
        return Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask);
    };
    auto* const of =
        table_of(pattern_of(to(0)), actions_of(Rule().queue(1), Rule().queue(0xffff)), 4);
    ASSERT_NE(of, nullptr) << error.message;
    ASSERT_NE(enqueue(of, to(2)), nullptr) << error.message;
    EXPECT_EQ(enqueue(of, to(3)), nullptr); // multicast, which the kernel tries last
    EXPECT_EQ(rte_errno, ENOTSUP);
    EXPECT_THAT(device.flows, SizeIs(1));
}

TEST_F(TemplateActionsTest, WhatCannotDifferFromRuleToRuleIsSaid) {
    const std::array<uint8_t, 6> mac = {2, 0, 0, 0, 0, 9}, zeros{};
    const auto with = [](const std::array<uint8_t, 6>& address) {
        return Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &address);
    };
    EXPECT_NE(actions_of(with(mac), with(mac)), nullptr);
    EXPECT_THAT(refused_actions(with(mac), with(zeros)),
                HasSubstr("action set_mac_src: only queue, rss, mark, jump and age, and what"));
    EXPECT_THAT(refused_actions(Rule().indirect(nullptr), Rule().indirect(nullptr)),
                HasSubstr("rules can give an rss, a count or an age"));
    rte_flow_action_modify_field field{};
    field.dst.field = RTE_FLOW_FIELD_IPV4_TTL;
    field.src.field = RTE_FLOW_FIELD_VALUE;
    field.src.value[0] = 7;
    field.width = 8;
    auto mask = field;
    const auto modify = [](const rte_flow_action_modify_field& conf) {
        return Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &conf);
    };
    EXPECT_NE(actions_of(modify(field), modify(mask)), nullptr);
    mask.src.value[0] = 0;
    EXPECT_THAT(refused_actions(modify(field), modify(mask)),
                HasSubstr("action modify_field: only"));
}

/// `device_allocates`: how often the tests' device allocates for each rule.
void TemplateActionsTest::no_allocation(rte_flow_template_table* of, const Rule& actions,
                                        size_t device_allocates) {
    constexpr uint32_t kRules = 1000;
    std::vector<Rule> rules;
    for (uint32_t n = 0; n < kRules; ++n)
        rules.push_back(flow(n >> 8 << 16, static_cast<uint16_t>(n & 0xff)));
    std::vector<rte_flow*> made(kRules);
    for (int round = 0; round < 2; ++round) {
        size_t before = allocations();
        for (uint32_t n = 0; n < kRules; ++n)
            made[n] = table.async_create(0, of, rules[n].pattern(), 0, actions.actions(), 0,
                                         nullptr, &error);
        // Ranges of a group's table are created at the first rule of a mask, and double.
        constexpr size_t kSome = kRules / 10;
        EXPECT_LT(allocations() - before, kRules * device_allocates + kSome);
        EXPECT_NE(made.back(), nullptr) << error.message;
        take_results();
        before = allocations();
        for (rte_flow* const rule : made)
            EXPECT_EQ(table.async_destroy(1, rule, nullptr, &error), 0);
        EXPECT_LT(allocations() - before, kSome);
        take_results();
    }
}

TEST_F(TemplateActionsTest, NothingIsAllocatedForAFlow) {
    const std::array<uint8_t, 6> mac = {2, 0, 0, 0, 0, 9};
    const Rule actions = Rule()
                             .action(RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &mac)
                             .action(RTE_FLOW_ACTION_TYPE_COUNT)
                             .mark(5)
                             .queue(1);
    auto* const of = fixed(actions, 0, 1000);
    ASSERT_NE(of, nullptr) << error.message;
    // Creates the matcher, the rewriting and the hash QP.
    ASSERT_NE(create(udp_to(7, 1)), nullptr);
    ASSERT_NE(enqueue(of, flow(0xffff, 0xffff)), nullptr) << error.message;
    const auto& flow = *device.flows.back();
    std::vector<mlx5dv_flow_action_attr> listed = flow.actions;
    std::vector<size_t> match(1 + flow.value.size() / sizeof(size_t), flow.value.size());
    auto* const value = reinterpret_cast<mlx5dv_flow_match_parameters*>(match.data());
    const size_t before = allocations();
    auto* const bare = device.api().mlx5_create_flow(
        reinterpret_cast<mlx5dv_flow_matcher*>(const_cast<verbs_test::Matcher*>(flow.matcher)),
        value, listed.size(), listed.data());
    const auto counter =
        std::ranges::find(listed, MLX5DV_FLOW_ACTION_COUNTERS_DEVX, &mlx5dv_flow_action_attr::type);
    ASSERT_NE(counter, listed.end());
    uint8_t in[32] = {}, out[32];
    EXPECT_EQ(device.api().mlx5_devx_obj_query(counter->obj, in, sizeof in, out, sizeof out), 0);
    const size_t each = allocations() - before;
    ASSERT_NE(bare, nullptr);
    EXPECT_EQ(ibv_destroy_flow(bare), 0);
    table.flush(&error);
    no_allocation(of, actions, each);
}

TEST_F(TemplateActionsTest, NothingIsAllocatedForAnEntry) {
    const std::array<uint8_t, 6> mac = {2, 0, 0, 0, 0, 9};
    Rule actions;
    push_vlan(actions, 5)
        .action(RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &mac)
        .rss({0, 1}, RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    auto* const of = fixed(actions, 1, 1000);
    ASSERT_NE(of, nullptr) << error.message;
    rte_flow* const kept = create([] { // keeps the table, the rewriting and the TIR
        Rule rule = flow(0xffff, 0xffff);
        const std::array<uint8_t, 6> address = {2, 0, 0, 0, 0, 9};
        rule.attr.group = 1;
        return rule.action(RTE_FLOW_ACTION_TYPE_SET_MAC_SRC, &address)
            .rss({0, 1}, RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    }());
    ASSERT_NE(kept, nullptr) << error.message;
    const std::vector<uint8_t> command = made(kEntry)[0]->command;
    uint8_t out[16];
    const size_t before = allocations();
    auto* const bare = device.api().mlx5_devx_obj_create(device.context(), command.data(),
                                                         command.size(), out, sizeof out);
    const size_t each = allocations() - before;
    EXPECT_EQ(device.api().mlx5_devx_obj_destroy(bare), 0);
    EXPECT_THAT(made(kModify), SizeIs(1));
    no_allocation(of, actions, each);
}

} // namespace
} // namespace rawqp::test
