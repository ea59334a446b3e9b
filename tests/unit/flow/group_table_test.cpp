// SPDX-License-Identifier: BSD-3-Clause
// Groups above 0: the commands that create their tables, entries and destinations, and that nothing
// is left behind.
#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"
#include "tests/unit/flow/fake_device.hpp"
#include "tests/unit/flow/flow_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using verbs_test::DevxObject;

constexpr uint16_t kTable = 0x930, kGroup = 0x933, kEntry = 0x936, kTir = 0x900, kRqt = 0x916,
                   kDomain = 0x816, kModify = 0x940, kReformat = 0x93d;
constexpr size_t kActionsAt = 76, kListAt = 832;

class GroupTest : public testing::Test {
  protected:
    FakeDevice device{4};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    Devx devx{device.api(), device.context()};
    std::unique_ptr<Steering> steering;

    GroupTest() {
        device.offer_mlx5_flows();
        device.offers_devx = true;
        steering = make_steering(device, qps, FlowEngine::mlx5);
    }
    ~GroupTest() override {
        steering.reset();
        EXPECT_THAT(device.devx_objects, IsEmpty());
        EXPECT_THAT(device.flows, IsEmpty());
        EXPECT_THAT(device.violations, IsEmpty());
    }
    std::vector<const DevxObject*> made(uint16_t opcode) const {
        std::vector<const DevxObject*> found;
        for (const auto& object : device.devx_objects)
            if (object->opcode() == opcode) found.push_back(object.get());
        return found;
    }
    SteeringRequest request(uint32_t group, std::vector<uint16_t> queues = {2}) {
        SteeringRequest request;
        request.group = group;
        request.target = qps.target({.queues = std::move(queues)});
        return request;
    }
};

TEST_F(GroupTest, AJumpLeadsToTheTableThatARuleIsIn) {
    SteeringRequest jump;
    jump.jump = 3;
    const auto way = steering->install(jump);
    const auto rule = steering->install(request(3));
    ASSERT_TRUE(way && rule);
    ASSERT_THAT(made(kTable), SizeIs(1));
    const DevxObject& table = *made(kTable)[0];
    EXPECT_EQ(table.word(16), 0u);                                // for receiving
    EXPECT_EQ(table.word(24), 0xc0000000u | (40 + 3) << 16 | 20); // level, size
    ASSERT_THAT(device.flows[0]->actions, SizeIs(1));
    EXPECT_EQ(DevxObject::of(device.flows[0]->actions[0].obj), &table);
    ASSERT_THAT(made(kEntry), SizeIs(1));
    const DevxObject& entry = *made(kEntry)[0];
    EXPECT_EQ(entry.word(20), table.number);
    EXPECT_EQ(entry.word(68), made(kGroup)[0]->number);
    EXPECT_EQ(entry.word(kActionsAt), 4u);
    ASSERT_THAT(made(kTir), SizeIs(1));
    EXPECT_EQ(entry.word(kListAt), 2u << 24 | made(kTir)[0]->number);
    EXPECT_EQ(made(kTir)[0]->word(60), 2u); // the queue's WQ number
    EXPECT_EQ(made(kTir)[0]->word(68), made(kDomain)[0]->number);
    EXPECT_EQ(qps.size(), 0u);
}

TEST_F(GroupTest, RssIsATableOfQueuesAndAHash) {
    SteeringRequest rss = request(1, {1, 3});
    RssDestination to{.queues = {1, 3}};
    to.hash_fields = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_PORT_UDP | IBV_RX_HASH_INNER;
    to.key[0] = 0x77;
    rss.target = qps.target(to);
    const auto rule = steering->install(rss);
    ASSERT_TRUE(rule);
    ASSERT_THAT(made(kRqt), SizeIs(1));
    EXPECT_EQ(made(kRqt)[0]->word(56), 2u);
    EXPECT_EQ(made(kRqt)[0]->word(272), 1u);
    EXPECT_EQ(made(kRqt)[0]->word(276), 3u);
    const DevxObject& tir = *made(kTir)[0];
    EXPECT_EQ(tir.word(36), 1u << 28); // indirect
    EXPECT_EQ(tir.word(64), 1u << 29 | made(kRqt)[0]->number);
    EXPECT_EQ(tir.word(68), 2u << 28 | made(kDomain)[0]->number); // Toeplitz
    EXPECT_EQ(tir.command[72], 0x77);
    EXPECT_EQ(tir.word(112), 0u);
    EXPECT_EQ(tir.word(116), 0xc0000009u);
    const auto same = steering->install([&] {
        rss.pattern.eth().set(0, 48, 5);
        return rss;
    }());
    EXPECT_THAT(made(kTir), SizeIs(1));
}

TEST_F(GroupTest, AnEntryTellsAllThatARuleDoes) {
    device.offers_counters = true;
    SteeringRequest all;
    all.group = 1;
    all.jump = 2;
    all.tag = 0x123456;
    all.counter = steering->make_counter();
    Edits edits;
    edits.rewrites.push_back({Protocol::eth, 48, 48, false, {2, 0, 0, 0, 0, 9}});
    edits.pop_vlan = true;
    edits.push_vlan = 0x88a8a005;
    all.edits = make_ref<const Edits>(edits);
    const auto rule = steering->install(all);
    ASSERT_TRUE(rule) << rule.error().what;
    const DevxObject& entry = *made(kEntry)[0];
    EXPECT_EQ(entry.word(kActionsAt), 0x4u | 0x8 | 0x40 | 0x80 | 0x100);
    EXPECT_EQ(entry.word(64), 0x88a8a005u);
    EXPECT_EQ(entry.word(72), 0x123456u);
    EXPECT_EQ(entry.word(92), made(kModify)[0]->number);
    EXPECT_EQ(made(kModify)[0]->word(12), 3u); // two for the address; later groups match the mark
    EXPECT_EQ(entry.word(kListAt) >> 24, 1u);
    EXPECT_EQ(entry.word(kListAt + 8), made(0x939)[0]->number);
    all.counter = nullptr;

    SteeringRequest sent;
    sent.group = 4;
    sent.egress = true;
    edits = {};
    edits.reformat = Reformat::wrap;
    edits.header.assign(50, 0xab);
    sent.edits = make_ref<const Edits>(edits);
    const auto out = steering->install(sent);
    ASSERT_TRUE(out) << out.error().what;
    EXPECT_EQ(made(kTable).back()->word(16), 1u << 24);
    EXPECT_EQ(made(kEntry)[1]->word(kActionsAt), 0x1u | 0x10);
    EXPECT_EQ(made(kEntry)[1]->word(88), made(kReformat)[0]->number);
    EXPECT_EQ(made(kReformat)[0]->word(28), 2u << 24 | 50);
    EXPECT_EQ(made(kReformat)[0]->command[34], 0xab);
}

/// The kernel's flows cannot express that: they lead to an entry with the same match.
TEST_F(GroupTest, TagsOfGroup0ChangeInATableBehindTheFlow) {
    SteeringRequest pop = request(0);
    pop.level = 5;
    pop.tag = 0x123456;
    pop.pattern.eth().set(0, 48, 0x020000000001);
    Edits edits;
    edits.pop_vlan = true;
    pop.edits = make_ref<const Edits>(edits);
    ASSERT_TRUE(steering->engine_for(pop)); // queries DevX
    int made_up_for = 0;
    for (int nth = 1;; ++nth) {
        device.fail_call(nth, ENOMEM);
        const bool installed = steering->install(pop).has_value();
        if (device.failed().empty()) break; // no call was left to fail
        made_up_for += installed ? 1 : 0;
        EXPECT_LE(device.devx_objects.size(), 1u) << nth; // the transport domain stays
        EXPECT_THAT(device.flows, IsEmpty());
    }
    device.fail_call(0, 0);
    EXPECT_EQ(made_up_for, 1) << "by a smaller table";
    const auto rule = steering->install(pop);
    ASSERT_TRUE(rule) << rule.error().what;
    ASSERT_THAT(made(kTable), SizeIs(1));
    EXPECT_EQ(made(kTable)[0]->word(24) >> 16 & 0xff, 40u) << "before that of group 1";
    const DevxObject& entry = *made(kEntry)[0];
    EXPECT_EQ(entry.word(kActionsAt), 0x4u | 0x80); // forwarded without its tag
    EXPECT_EQ(entry.word(72), 0x123456u);
    EXPECT_EQ(entry.word(kListAt), 2u << 24 | made(kTir)[0]->number);
    ASSERT_THAT(device.flows, SizeIs(1));
    ASSERT_THAT(device.flows[0]->actions, SizeIs(1));
    EXPECT_EQ(DevxObject::of(device.flows[0]->actions[0].obj), made(kTable)[0]);
    const auto table = GroupTable::make(devx, false, 50, 20);
    EXPECT_GE(entry.word(32), table->share(pop.level)) << "in the flow's place";
    EXPECT_LT(entry.word(32), table->share(pop.level + 1));
}

TEST_F(GroupTest, AFailureLeavesNothing) {
    SteeringRequest rule = request(1, {0, 1});
    RssDestination to{.queues = {0, 1}};
    to.hash_fields = IBV_RX_HASH_SRC_IPV4;
    rule.target = qps.target(to);
    rule.tag = 5;
    Edits edits;
    edits.rewrites.push_back({Protocol::eth, 48, 48, false, {}});
    rule.edits = make_ref<const Edits>(edits);
    ASSERT_TRUE(steering->engine_for(rule)); // queries DevX
    for (int nth = 1; nth <= 6; ++nth) {     // table, domain, RQT, TIR, rewriting, group, entry
        const auto first = nth == 1 ? EINVAL : ENOMEM;
        device.fail_call(nth, first);
        const auto refused = steering->install(rule);
        if (nth == 1) { // a table that cannot change packets is tried next
            EXPECT_TRUE(refused);
            continue;
        }
        EXPECT_FALSE(refused) << nth;
        EXPECT_LE(device.devx_objects.size(), 1u) << nth; // the transport domain stays
    }
}

TEST_F(GroupTest, WithoutDevxItIsSaid) {
    device.offers_devx = false;
    const SteeringRequest in_a_group = request(1);
    const auto engine = make_steering(device, qps)->engine_for(in_a_group);
    ASSERT_FALSE(engine);
    EXPECT_THAT(engine.error().what, HasSubstr("DevX, which the kernel does not give"));
    SteeringRequest backwards = request(2);
    backwards.jump = 2;
    device.offers_devx = true;
    EXPECT_THAT(steering->engine_for(backwards).error().what, HasSubstr("leads to a higher group"));
}

TEST_F(GroupTest, EveryPlaceHasAShareInItsOrder) {
    for (const uint8_t log_size : {20, 16}) {
        const auto table = GroupTable::make(devx, false, 50, log_size);
        for (uint32_t place = 0; place <= GroupTable::kLastPlace; ++place)
            ASSERT_LT(table->share(place), table->share(place + 1)) << place;
        EXPECT_EQ(table->share(0), 0u);
        EXPECT_EQ(table->share(GroupTable::kLastPlace + 1), 1u << log_size);
    }
}

TEST_F(GroupTest, RangesGrowAndAreGivenBack) {
    auto table = GroupTable::make(devx, false, 50, 20);
    std::mt19937 random(20261122);
    struct Kept {
        uint32_t place;
        PartRef entry;
    };
    std::vector<Kept> kept;
    size_t most_groups = 0;
    for (int step = 0; step < 6000; ++step) {
        if (kept.size() > 3000 || (!kept.empty() && random() % 4 == 0)) {
            kept.erase(kept.begin() + static_cast<ptrdiff_t>(random() % kept.size()));
        } else {
            Mlx5Match match;
            match.criteria = 1;
            match.mask[random() % 3] = 0xff;
            const uint32_t place = random() % 5 * 3;
            PartRef entry = table->add(place, match, {});
            ASSERT_TRUE(entry);
            kept.push_back({place, std::move(entry)});
        }
        most_groups = std::max(most_groups, made(kGroup).size());
    }
    EXPECT_LE(most_groups, 5u * 3 * 6);
    std::set<uint32_t> used;
    for (const DevxObject* entry : made(kEntry))
        EXPECT_TRUE(used.insert(entry->word(32)).second);
    // An entry is in the range of its group, and groups do not overlap.
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> groups;
    for (const DevxObject* group : made(kGroup))
        groups[group->number] = {group->word(28), group->word(36)};
    for (const DevxObject* entry : made(kEntry)) {
        const auto [first, last] = groups.at(entry->word(68));
        EXPECT_TRUE(first <= entry->word(32) && entry->word(32) <= last);
    }
    kept.clear();
    EXPECT_THAT(made(kGroup), IsEmpty());
    table.reset();
}

TEST_F(GroupTest, AShareThatIsFullIsSaid) {
    const auto table = GroupTable::make(devx, false, 50, 16);
    constexpr uint32_t kLast = GroupTable::kPlaces - 1;
    const uint32_t room = table->share(kLast + 1) - table->share(kLast);
    std::vector<PartRef> kept;
    for (uint32_t i = 0; i < room; ++i)
        EXPECT_TRUE(kept.emplace_back(table->add(kLast, {}, {})));
    EXPECT_FALSE(table->add(kLast, {}, {}));
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_TRUE(table->add(kLast - 1, {}, {}));
    kept.pop_back();
    EXPECT_TRUE(table->add(kLast, {}, {}));
}

/// An application's rules in groups.
class GroupRuleTest : public GroupTest {
  protected:
    FlowTable table{*steering, device.rx_queues};
    rte_flow_error error{};

    ~GroupRuleTest() override { table.flush(nullptr); }
    rte_flow* create(const Rule& rule) {
        return table.create(&rule.attr, rule.pattern(), rule.actions(), &error);
    }
    static Rule in_group(uint32_t group, Rule rule) {
        rule.attr.group = group;
        return rule;
    }
    static Rule jump_to(uint32_t group) {
        const rte_flow_action_jump conf{group};
        return Rule().item(RTE_FLOW_ITEM_TYPE_ETH).action(RTE_FLOW_ACTION_TYPE_JUMP, &conf);
    }
};

TEST_F(GroupRuleTest, ComeAndGoWithThePort) {
    const Rule rule = in_group(1, udp_to(53, 2).action(RTE_FLOW_ACTION_TYPE_COUNT));
    ASSERT_NE(create(jump_to(1)), nullptr) << error.message;
    rte_flow* const counted = create(rule);
    ASSERT_NE(counted, nullptr) << error.message;
    EXPECT_THAT(made(kEntry), IsEmpty()); // accepted, but the port is stopped
    for (int turn = 0; turn < 2; ++turn) {
        ASSERT_TRUE(table.start());
        EXPECT_THAT(made(kEntry), SizeIs(1));
        EXPECT_THAT(device.flows, SizeIs(1));
        EXPECT_EQ(create(rule), nullptr);
        EXPECT_THAT(error.message, HasSubstr("matches eth/ipv4/udp with the same values already"));
        table.stop();
        EXPECT_THAT(made(kEntry), IsEmpty());
        EXPECT_THAT(made(kTable), IsEmpty());
        EXPECT_THAT(made(kTir), IsEmpty());
        EXPECT_THAT(device.flows, IsEmpty());
        EXPECT_THAT(made(0x939), SizeIs(1)); // it holds the counts
    }
    device.devx_answer = hex("0000000000000000 0000000000000004 0000000000000190");
    const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    rte_flow_query_count result{};
    result.reset = 1;
    for (const uint64_t hits : {4u, 0u}) {
        ASSERT_EQ(table.query(counted, &action, &result, &error), 0);
        EXPECT_EQ(result.hits, hits);
        EXPECT_EQ(result.bytes, 100 * hits);
    }
}

/// Through TIRs, whose own errors do not say so: in groups, and where flows lead to tables.
TEST_F(GroupRuleTest, StartNamesAQueueThatIsGone) {
    const rte_flow_action_of_push_vlan tag{RTE_BE16(RTE_ETHER_TYPE_VLAN)};
    rte_flow_action_sample copies{};
    const Rule to = Rule().queue(3);
    copies.ratio = 2;
    copies.actions = to.actions();
    for (const Rule& rule :
         {in_group(1, udp_to(53, 3)), udp_to(53, 3).action(RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN, &tag),
          udp_to(53, 1).action(RTE_FLOW_ACTION_TYPE_SAMPLE, &copies)}) {
        device.set_up_rx_queues(device.rx_queues.configured = 4);
        ASSERT_NE(create(rule), nullptr) << error.message;
        device.set_up_rx_queues(device.rx_queues.configured = 2);
        const auto started = table.start();
        ASSERT_FALSE(started);
        EXPECT_THAT(started.error().what,
                    HasSubstr("there is no Rx queue 3: the port is configured with 2"));
        table.flush(&error);
    }
}

TEST_F(GroupRuleTest, OneMatchStandsInManyGroupsAndPriorities) {
    ASSERT_TRUE(table.start());
    for (const uint32_t group : {0u, 1u, 2u, 1000000u})
        ASSERT_NE(create(in_group(group, udp_to(53, 0))), nullptr) << error.message;
    for (const uint32_t priority : {1u, 2u, 4095u}) {
        Rule rule = in_group(1, udp_to(53, 0));
        rule.attr.priority = priority;
        ASSERT_NE(create(rule), nullptr) << error.message;
    }
    Rule beyond = in_group(1, udp_to(53, 0));
    beyond.attr.priority = 4096;
    EXPECT_EQ(create(beyond), nullptr);
    EXPECT_THAT(error.message, HasSubstr("the largest in a group above 0 is 4095"));
    EXPECT_THAT(made(kEntry), SizeIs(6));
    EXPECT_THAT(made(kTable), SizeIs(3));
    EXPECT_THAT(made(kTir), SizeIs(1));
    std::vector<uint32_t> indices; // in priority order
    for (const DevxObject* entry : made(kEntry))
        if (entry->word(20) == made(kTable)[0]->number) indices.push_back(entry->word(32));
    EXPECT_THAT(indices, SizeIs(4));
    EXPECT_TRUE(std::ranges::is_sorted(indices));
}

TEST_F(GroupRuleTest, AFailureHalfWayLeavesNothing) {
    ASSERT_TRUE(table.start());
    const Rule rss = in_group(1, Rule()
                                     .item(RTE_FLOW_ITEM_TYPE_ETH)
                                     .rss({0, 1}, RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP));
    ASSERT_NE(create(rss), nullptr) << error.message; // creates the transport domain, once
    table.flush(nullptr);
    const size_t before = device.devx_objects.size();
    int failures = 0;
    for (int nth = 3;; ++nth) { // the first two tables are attempts: a large one, then a small one
        device.fail_call(nth, ENOMEM);
        if (create(rss) != nullptr) break;
        ++failures;
        EXPECT_EQ(device.devx_objects.size(), before) << nth;
    }
    EXPECT_GE(failures, 9); // three entries with their groups and TIRs
}

} // namespace
} // namespace rawqp::test
