// SPDX-License-Identifier: BSD-3-Clause
// Ages and RSS that the rules of a table give themselves, as far as the masks leave them open.
#include "drivers/net/rawqp/ethdev/flow/age.hpp"
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr auto kAge = RTE_FLOW_ACTION_TYPE_AGE;
constexpr auto kRss = RTE_FLOW_ACTION_TYPE_RSS;

class TemplateOwnTest : public TemplateTest {
  protected:
    TemplateOwnTest() : TemplateTest(FlowEngine::mlx5) {
        configure(1024);
        start();
    }
    static Rule age(Rule rule, uint32_t timeout, void* context) {
        rte_flow_action_age conf{};
        conf.timeout = timeout & 0xffffff;
        conf.context = context;
        return rule.queue(1).action(kAge, &conf);
    }
    rte_flow_template_table* table_with(const Rule& actions, const Rule& masks,
                                        uint32_t rules = 4) {
        auto* const of = table_of(pattern_of(flow(0, 0)), actions_of(actions, masks), rules);
        EXPECT_NE(of, nullptr) << error.message;
        return of;
    }
    /// The same rule from rte_flow_create, while its place is free.
    std::string usual(const Rule& rule) {
        rte_flow* const made = create(rule);
        EXPECT_NE(made, nullptr) << error.message;
        std::string text = dump(made);
        EXPECT_EQ(table.destroy(made, &error), 0);
        return text;
    }
};

TEST_F(TemplateOwnTest, AnAgeByTheMask) {
    int contexts[2];
    const Rule actions = age({}, 10, &contexts[0]);
    const struct {
        Rule mask;
        int timeout;
        void* context;
    } kCases[] = {
        {age({}, 0, nullptr), 20, &contexts[1]}, // each rule gives all of it
        {age({}, 0xffffff, nullptr), 10, &contexts[1]},
        {age({}, 0, contexts), 20, &contexts[0]},
        {age({}, 0xffffff, contexts), 10, &contexts[0]},
    };
    for (const auto& [mask, timeout, context] : kCases) {
        auto* const of = table_with(actions, mask, 2);
        for (int round = 0; round < 3; ++round) { // in a reused slot, the age starts anew
            const auto begun = FlowAge::Clock::now();
            rte_flow* const rule = enqueue(of, age(flow(1, 1), 20, &contexts[1]));
            ASSERT_NE(rule, nullptr) << error.message;
            EXPECT_FALSE(table.look_at_ages(begun + seconds(timeout - 1)));
            EXPECT_TRUE(table.look_at_ages(begun + seconds(timeout + 3)));
            void* told = nullptr;
            EXPECT_EQ(table.aged(&told, 1, &error), 1);
            EXPECT_EQ(told, context);
            EXPECT_EQ(table.destroy(rule, &error), 0);
            EXPECT_EQ(table.aged(nullptr, 0, &error), 0) << "of a rule that is gone";
        }
        EXPECT_FALSE(table.look_at_ages(FlowAge::Clock::now() + hours(1)));
        EXPECT_FALSE(table.has_ages());
        EXPECT_EQ(table.destroy(of, &error), 0);
    }
}

/// The example of rte_flow's guide: the mark is the template's, the queue is left out and each
/// rule's.
TEST_F(TemplateOwnTest, WhatNeitherTemplateNorMaskGivesIsEachRules) {
    auto* const of = table_with(Rule().mark(4).action(RTE_FLOW_ACTION_TYPE_QUEUE),
                                Rule().mark(1).action(RTE_FLOW_ACTION_TYPE_QUEUE));
    ASSERT_NE(of, nullptr);
    rte_flow* const rule = enqueue(of, flow(1, 1).action(RTE_FLOW_ACTION_TYPE_MARK).queue(2));
    ASSERT_NE(rule, nullptr) << error.message;
    EXPECT_THAT(dump(rule), HasSubstr("queue 2, mark 4"));
    EXPECT_EQ(enqueue(of, flow(1, 2).mark(4).action(RTE_FLOW_ACTION_TYPE_QUEUE)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("in place of the template's queue with a configuration"));
}

/// A mask makes constant what is not there.
TEST_F(TemplateOwnTest, AMaskOfNoConfigurationIsRefused) {
    const rte_flow_action_jump jump{1};
    const std::pair<rte_flow_action_type, Rule> kCases[] = {
        {RTE_FLOW_ACTION_TYPE_QUEUE, Rule().queue(1)},
        {RTE_FLOW_ACTION_TYPE_MARK, Rule().mark(1)},
        {RTE_FLOW_ACTION_TYPE_JUMP, Rule().action(RTE_FLOW_ACTION_TYPE_JUMP, &jump)},
        {RTE_FLOW_ACTION_TYPE_RSS, Rule().rss({0, 1})}};
    for (const auto& [type, mask] : kCases) {
        const Rule rule = Rule().action(type);
        EXPECT_THAT(refused_actions(rule, mask), HasSubstr("which is missing: give it, or clear"));
        EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ACTION_CONF);
        EXPECT_EQ(error.cause, rule.actions());
        EXPECT_EQ(rte_errno, EINVAL);
    }
}

TEST_F(TemplateOwnTest, AnAgeThatIsLeftOpenIsGiven) {
    auto* const of = table_with(age({}, 0, nullptr), age({}, 0, nullptr));
    EXPECT_EQ(enqueue(of, flow(1, 1).queue(1).action(kAge)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("in place of the template's age with a configuration"));
    EXPECT_EQ(enqueue(of, age(flow(1, 1), 0, nullptr)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("timeout 0: the shortest is a second"));
    EXPECT_FALSE(table.has_ages());
    // A second rule with the same match is refused, and does not age.
    ASSERT_NE(enqueue(of, age(flow(1, 1), 100, nullptr)), nullptr) << error.message;
    EXPECT_EQ(enqueue(of, age(flow(1, 1), 1, nullptr)), nullptr);
    EXPECT_FALSE(table.look_at_ages(FlowAge::Clock::now() + seconds(50)));
}

TEST_F(TemplateOwnTest, AnRssThatIsEachRules) {
    auto* const of = table_with(Rule().action(kRss), Rule().action(kRss));
    const std::pair<std::vector<uint16_t>, uint64_t> kSpreads[] = {
        {{0, 1}, RTE_ETH_RSS_NONFRAG_IPV4_UDP},
        {{1, 2, 3}, RTE_ETH_RSS_IP},
        {{3}, 0},
        {{3, 1}, 0},
        {{0, 1}, RTE_ETH_RSS_UDP},
        {{2, 1}, RTE_ETH_RSS_NONFRAG_IPV4_TCP}}; // ignored: all go to the first queue
    for (const auto& [queues, types] : kSpreads) {
        const std::string text = usual(flow(1, 1).rss(queues, types));
        rte_flow* const rule = enqueue(of, flow(1, 1).rss(queues, types));
        ASSERT_NE(rule, nullptr) << error.message;
        EXPECT_EQ(dump(rule), text);
        EXPECT_EQ(table.destroy(rule, &error), 0);
    }
    EXPECT_EQ(enqueue(of, flow(1, 1).rss({0, 9})), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no Rx queue 9"));
    rte_flow_action_rss inner{};
    const uint16_t queue = 0;
    inner.level = 2;
    inner.queue_num = 1;
    inner.queue = &queue;
    EXPECT_EQ(enqueue(of, flow(1, 1).action(kRss, &inner)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("level 2: it decides which headers"));
    EXPECT_EQ(enqueue(of, flow(1, 1).action(kRss)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("in place of the template's rss with a configuration"));
}

/// A pattern of several classes has a device rule for each, whatever types a rule gives.
TEST_F(TemplateOwnTest, ClassesOfAnRssThatIsEachRules) {
    auto ipv4 = zeroed<rte_flow_item_ipv4>(), mask = ipv4;
    mask.hdr.dst_addr = 0xffffffff;
    const auto to = [&](uint8_t last) {
        ipv4.hdr.dst_addr = rte_cpu_to_be_32(0x0a000000u | last);
        return Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, &mask);
    };
    auto* const of =
        table_of(pattern_of(to(0)), actions_of(Rule().action(kRss), Rule().action(kRss)), 4);
    ASSERT_NE(of, nullptr) << error.message;
    rte_flow* const udp = enqueue(of, to(1).rss({0, 1}, RTE_ETH_RSS_NONFRAG_IPV4_UDP));
    ASSERT_NE(udp, nullptr) << error.message;
    EXPECT_THAT(dump(udp),
                testing::ContainsRegex("/ udp: rss to queues 0 1, table of 2, by IPv4 .*port"));
    EXPECT_THAT(dump(udp), testing::ContainsRegex("/ tcp: queue 0 "));
    EXPECT_THAT(dump(udp), testing::ContainsRegex("dst 0xa000001: queue 0 "));
    rte_flow* const ip = enqueue(of, to(2).rss({0, 1}, RTE_ETH_RSS_IP));
    ASSERT_NE(ip, nullptr) << error.message;
    EXPECT_THAT(dump(ip), testing::Not(HasSubstr("port")));
    EXPECT_THAT(dump(ip), testing::Not(HasSubstr("queue 0")));
}

TEST_F(TemplateOwnTest, QueuesAloneAreEachRules) {
    rte_flow_action_rss mask{};
    mask.types = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    auto* const of =
        table_with(Rule().rss({0}, RTE_ETH_RSS_NONFRAG_IPV4_UDP), Rule().action(kRss, &mask));
    const std::string text = usual(flow(1, 1).rss({2, 3}, RTE_ETH_RSS_NONFRAG_IPV4_UDP));
    rte_flow* const rule = enqueue(of, flow(1, 1).rss({2, 3}, RTE_ETH_RSS_IP));
    ASSERT_NE(rule, nullptr) << error.message;
    EXPECT_EQ(dump(rule), text) << "by the types of the template";
}

/// What the mask sets comes from the template whatever rules give; its other fields are ignored.
TEST_F(TemplateOwnTest, AnRssByTheMask) {
    const uint16_t queues[] = {0, 1};
    const uint8_t short_key[4]{};
    rte_flow_action_rss given{}, mask{};
    given.types = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    given.queue = queues;
    given.queue_num = 2;
    rte_flow_action_rss conf = given;
    conf.func = mask.func = RTE_ETH_HASH_FUNCTION_SYMMETRIC_TOEPLITZ;
    conf.level = mask.level = 1;
    conf.key = short_key;
    conf.key_len = sizeof short_key;
    auto* const of = table_with(Rule().action(kRss, &conf), Rule().action(kRss, &mask));
    given.level = 2;
    ASSERT_NE(enqueue(of, flow(1, 1).action(kRss, &given)), nullptr) << error.message;
    EXPECT_TRUE(std::ranges::any_of(device.qps,
                                    [](const auto& qp) { return qp->key == kSymmetricRssKey; }));
}

TEST_F(TemplateOwnTest, AnIndirectRssOfEachRule) {
    const auto share = [&](std::vector<uint16_t> queues) {
        rte_flow_indir_action_conf directions{};
        directions.ingress = 1;
        return table.share(&directions, Rule().rss(std::move(queues)).actions(), &error);
    };
    auto *const one = share({0, 1}), *const two = share({2, 3});
    auto* const of = table_with(Rule().indirect(nullptr), Rule().action(kRss));
    rte_flow* const first = enqueue(of, flow(1, 1).indirect(one));
    rte_flow* const second = enqueue(of, flow(1, 2).indirect(two));
    ASSERT_TRUE(first != nullptr && second != nullptr) << error.message;
    EXPECT_THAT(dump(first), HasSubstr("rss to queues 0 1, table of"));
    const Rule elsewhere = Rule().rss({3, 1, 2, 0});
    EXPECT_EQ(table.update_shared(one, elsewhere.actions(), &error), 0) << error.message;
    EXPECT_THAT(dump(first), HasSubstr("rss to queues 3 1 2 0, table of"));
    EXPECT_THAT(dump(second), HasSubstr("rss to queues 2 3, table of"));
    EXPECT_EQ(table.unshare(one, &error), -EBUSY);
    table.flush(&error);
    EXPECT_EQ(table.unshare(one, &error), 0);
    EXPECT_EQ(table.unshare(two, &error), 0);
}

/// After an update of the indirect action in their template, new rules follow it, as do existing
/// ones.
TEST_F(TemplateOwnTest, AnIndirectRssOfTheTemplate) {
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    auto* const rss = table.share(&directions, Rule().rss({0, 1}).actions(), &error);
    ASSERT_NE(rss, nullptr) << error.message;
    const Rule counted = Rule().indirect(rss).action(RTE_FLOW_ACTION_TYPE_COUNT);
    auto* const of = table_with(counted, counted);
    rte_flow* const before = enqueue(of, flow(1, 1).indirect(rss));
    ASSERT_NE(before, nullptr) << error.message;
    const size_t objects = device.devx_objects.size();
    ASSERT_EQ(table.update_shared(rss, Rule().rss({2, 3}).actions(), &error), 0) << error.message;
    EXPECT_THAT(dump(before), HasSubstr("rss to queues 2 3, table of"));
    rte_flow* const after = enqueue(of, flow(1, 2).indirect(rss));
    ASSERT_NE(after, nullptr) << error.message;
    EXPECT_THAT(dump(after), HasSubstr("rss to queues 2 3, table of"));
    EXPECT_THAT(dump(after), HasSubstr(", count"));
    EXPECT_EQ(device.devx_objects.size(), objects) << "by the counter that the table made for it";

    for (int call = 1, result = -1; result != 0; ++call) { // a failure changes nothing
        device.fail_call(call, ENOMEM);
        result = table.update_shared(rss, Rule().rss({1, 0, 3}).actions(), &error);
        device.fail_call(0, 0);
        rte_flow* const next = enqueue(of, flow(1, 3).indirect(rss));
        ASSERT_NE(next, nullptr) << error.message;
        const char* const queues =
            result == 0 ? "rss to queues 1 0 3, table" : "rss to queues 2 3, table";
        for (rte_flow* const each : {before, after, next})
            EXPECT_THAT(dump(each), HasSubstr(queues)) << "call " << call;
        EXPECT_EQ(table.destroy(next, &error), 0);
    }

    const Rule none = Rule().rss({0, 9});
    EXPECT_EQ(table.update_shared(rss, none.actions(), &error), -EINVAL);
    table.flush(&error); // there are no rules to check, but the table is checked
    EXPECT_EQ(table.update_shared(rss, none.actions(), &error), -EINVAL);
    EXPECT_EQ(error.cause, none.actions());
    rte_flow* const last = enqueue(of, flow(1, 4).indirect(rss));
    ASSERT_NE(last, nullptr) << error.message;
    EXPECT_THAT(dump(last), HasSubstr("rss to queues 1 0 3, table"));
    EXPECT_EQ(table.destroy(last, &error), 0);
    EXPECT_EQ(table.unshare(rss, &error), -EBUSY) << "the table has it";
    EXPECT_EQ(table.destroy(of, &error), 0);
    EXPECT_EQ(table.unshare(rss, &error), 0);
}

/// More classes would need more device rules, for which the table has no room.
TEST_F(TemplateOwnTest, AnIndirectRssOfTheTemplateKeepsItsClasses) {
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    const Rule ipv4 = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4);
    auto* const rss =
        table.share(&directions, Rule().rss({0, 1}, RTE_ETH_RSS_IPV4).actions(), &error);
    const Rule actions = Rule().indirect(rss);
    auto* const of = table_of(pattern_of(ipv4), actions_of(actions, actions), 4);
    ASSERT_NE(of, nullptr) << error.message;
    constexpr uint64_t kMore = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    EXPECT_EQ(table.update_shared(rss, Rule().rss({0, 1}, kMore).actions(), &error), -ENOTSUP);
    EXPECT_THAT(error.message, HasSubstr("no room for so many traffic classes"));
    ASSERT_EQ(table.update_shared(rss, Rule().rss({3, 1}).actions(), &error), 0) << error.message;
    rte_flow* const rule = enqueue(of, Rule(ipv4).indirect(rss));
    ASSERT_NE(rule, nullptr) << error.message;
    EXPECT_THAT(dump(rule), HasSubstr("rss to queues 3 1, table of"));
    EXPECT_EQ(table.flush(&error), 0);
    EXPECT_EQ(table.destroy(of, &error), 0);
    EXPECT_EQ(table.unshare(rss, &error), 0);
}

TEST_F(TemplateOwnTest, NothingIsAllocatedForThem) {
    constexpr uint16_t kRules = 200;
    rte_flow_action_age open{};
    auto* const of = table_with(Rule().action(kRss).action(kAge, &open),
                                Rule().action(kRss).action(kAge, &open), kRules);
    auto* const bare = table_with(Rule().queue(0).action(RTE_FLOW_ACTION_TYPE_COUNT),
                                  Rule().queue(0xffff).action(RTE_FLOW_ACTION_TYPE_COUNT), kRules);
    open.timeout = 9;
    const Rule actions = Rule().rss({1, 2}).action(kAge, &open), other = Rule().queue(0);
    device.flows.reserve(2048);
    std::vector<Rule> rules;
    for (uint16_t n = 0; n < kRules; ++n)
        rules.push_back(flow(1, n));
    const auto allocate = [&](rte_flow_template_table* table_of, const Rule& with) {
        const size_t before = allocations();
        for (const Rule& rule : rules)
            EXPECT_NE(table.async_create(0, table_of, rule.pattern(), 0, with.actions(), 0, nullptr,
                                         &error),
                      nullptr);
        const size_t made = allocations() - before;
        table.flush(&error);
        std::array<rte_flow_op_result, kRules> results{};
        while (table.pull(0, results, &error) > 0)
            ;
        return made;
    };
    for (int round = 0; round < 2; ++round) { // the first one creates all device objects
        const size_t usual = allocate(bare, other), own = allocate(of, actions);
        if (round == 0) continue;
        EXPECT_LE(own, usual + kRules / 10u);
    }
}

} // namespace
} // namespace rawqp::test
