// SPDX-License-Identifier: BSD-3-Clause
// Indirect actions, and rules whose actions are updated.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/flow_table.hpp"

#include <map>
#include <random>
#include <set>

namespace rawqp::test {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// An rss action with its queues.
struct RssAction {
    std::vector<uint16_t> queues;
    rte_flow_action_rss conf{};
    rte_flow_action action{};

    explicit RssAction(std::vector<uint16_t> list, uint64_t types = RTE_ETH_RSS_IPV4)
        : queues(std::move(list)) {
        conf.types = types;
        conf.queue = queues.data();
        conf.queue_num = static_cast<uint32_t>(queues.size());
        action.type = RTE_FLOW_ACTION_TYPE_RSS;
        action.conf = &conf;
    }
    RssAction(const RssAction&) = delete;
    RssAction& operator=(const RssAction&) = delete;
};

Rule ipv4_from(uint32_t address) {
    rte_flow_item_ipv4 spec{};
    spec.hdr.src_addr = rte_cpu_to_be_32(address);
    return Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4, &spec);
}

class SharedActionTest : public FlowTableTest {
  protected:
    ~SharedActionTest() override { device.on_change = nullptr; }

    rte_flow_action_handle* share(const rte_flow_action& action) {
        rte_flow_indir_action_conf conf{};
        conf.ingress = 1;
        return table.share(&conf, &action, &error);
    }
    rte_flow_action_handle* share_count() {
        rte_flow_action count{};
        count.type = RTE_FLOW_ACTION_TYPE_COUNT;
        return share(count);
    }
    uint64_t hits(rte_flow_action_handle* count) {
        rte_flow_query_count result{};
        EXPECT_EQ(table.query_shared(count, &result, &error), 0) << error.message;
        return result.hits;
    }
    int update(rte_flow_action_handle* handle, const rte_flow_action& action) {
        return table.update_shared(handle, &action, &error);
    }
    std::vector<std::vector<uint16_t>> queues() const {
        std::vector<std::vector<uint16_t>> list;
        for (const auto& flow : device.flows)
            list.push_back(flow->qp->queues);
        return list;
    }
    /// From now on, each of these patterns always has a flow, and never two at one level.
    void watch() {
        std::set<Bytes> patterns;
        for (const auto& flow : device.flows)
            patterns.insert(match_of(*flow));
        device.on_change = [this, patterns] {
            std::set<Bytes> present;
            std::set<std::pair<uint16_t, Bytes>> places;
            for (const auto& flow : device.flows) {
                present.insert(match_of(*flow));
                EXPECT_TRUE(places.emplace(flow->level(), match_of(*flow)).second);
            }
            EXPECT_TRUE(std::ranges::includes(present, patterns));
        };
    }

    static uint32_t tag_of(const verbs_test::Flow& flow) {
        ibv_flow_spec_action_tag tag{}; // which comes first
        std::memcpy(&tag, &flow.bytes[sizeof(ibv_flow_attr)], sizeof tag);
        EXPECT_EQ(tag.type, IBV_FLOW_SPEC_ACTION_TAG);
        return tag.tag_id;
    }

    /// The specs except those of actions, which come first and last.
    static Bytes match_of(const verbs_test::Flow& flow) {
        Bytes match;
        for (size_t at = sizeof(ibv_flow_attr); at < flow.bytes.size();) {
            uint32_t type;
            uint16_t size;
            std::memcpy(&type, &flow.bytes[at], sizeof type);
            std::memcpy(&size, &flow.bytes[at + sizeof type], sizeof size);
            if (type < IBV_FLOW_SPEC_ACTION_TAG)
                match.insert(match.end(), &flow.bytes[at], &flow.bytes[at] + size);
            at += size;
        }
        return match;
    }
};

TEST_F(SharedActionTest, AnUpdateOfRssMovesAllItsRulesWithoutAGap) {
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    ASSERT_NE(rss, nullptr) << error.message;
    ASSERT_NE(create(ipv4_from(1).indirect(rss)), nullptr) << error.message;
    ASSERT_NE(create(ipv4_from(2).indirect(rss).mark(7)), nullptr) << error.message;
    rte_flow* const other = create(ipv4_from(3).queue(3));
    EXPECT_EQ(qps.size(), 2u);
    EXPECT_THAT(refused(ipv4_from(1).queue(2)), HasSubstr("matches eth/ipv4"));

    watch();
    for (const auto& list : {std::vector<uint16_t>{2, 3}, {1, 0}, {1, 2}}) {
        ASSERT_EQ(update(rss, RssAction(list).action), 0) << error.message;
        auto all = queues();
        EXPECT_EQ(std::erase(all, std::vector<uint16_t>{3}), 1u);
        EXPECT_THAT(all, Each(list));
        EXPECT_THAT(all, SizeIs(2));
        EXPECT_EQ(qps.size(), 2u);
        EXPECT_THAT(refused(ipv4_from(1).queue(2)), HasSubstr("matches eth/ipv4"));
    }
    device.on_change = nullptr;
    EXPECT_EQ(table.destroy(other, &error), 0);
    table.stop();
    EXPECT_THAT(device.flows, IsEmpty());
    start();
    EXPECT_THAT(queues(), Each(std::vector<uint16_t>{1, 2}));
}

/// Where levels are few, rules of other priorities make room for the replacements.
TEST_F(SharedActionTest, AnUpdateOfRssKeepsPrioritiesInOrder) {
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    std::map<uint32_t, rte_flow*> rules; // by priority, which is also their mark
    std::minstd_rand random(1);
    const auto levels = [&] { // in priority order
        std::map<uint32_t, uint16_t> by_tag;
        for (const auto& flow : device.flows)
            by_tag[tag_of(*flow)] = flow->level();
        std::vector<uint16_t> list;
        list.reserve(rules.size());
        for (const auto& [priority, rule] : rules)
            list.push_back(by_tag.at(tag_of_mark(priority)));
        return list;
    };
    for (int round = 0; round < 200; ++round) {
        if (rules.size() == 5) { // the most that can all be replaced
            const auto gone = std::next(rules.begin(), random() % 5);
            ASSERT_EQ(table.destroy(gone->second, &error), 0);
            rules.erase(gone);
        }
        const uint32_t priority = random() % 20;
        Rule rule = ipv4_from(priority).indirect(rss).mark(priority);
        rule.attr.priority = priority;
        if (!rules.contains(priority)) rules[priority] = create(rule);
        ASSERT_NE(rules[priority], nullptr) << error.message;
        for (const std::vector<uint16_t>& to : {std::vector<uint16_t>{2, 3}, {0, 1}}) {
            ASSERT_EQ(update(rss, RssAction(to).action), 0) << error.message;
            const std::vector<uint16_t> now = levels();
            ASSERT_TRUE(std::ranges::is_sorted(now, std::less_equal<>()))
                << "round " << round << ": " << testing::PrintToString(now);
        }
    }
}

TEST_F(SharedActionTest, AnUpdateOfRssMayChangeItsTypesAndItsKey) {
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    rte_flow* const flow = create(ipv4_from(1).indirect(rss));
    ASSERT_THAT(device.flows, SizeIs(1));
    watch();
    RssKey key{};
    key.fill(0x5a);
    RssAction next({0, 1}, RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    next.conf.key = key.data();
    next.conf.key_len = kRssKeyBytes;
    ASSERT_EQ(update(rss, next.action), 0) << error.message;
    ASSERT_THAT(device.flows, SizeIs(2)); // UDP has its own hash
    for (const auto* each : device.rules())
        EXPECT_EQ(each->qp->key, key);
    ASSERT_EQ(update(rss, RssAction({2, 3}).action), 0) << error.message;
    EXPECT_THAT(queues(), testing::ElementsAre(std::vector<uint16_t>{2, 3}));
    device.on_change = nullptr;
    ASSERT_EQ(table.destroy(flow, &error), 0);
    EXPECT_THAT(device.flows, IsEmpty());
    EXPECT_EQ(table.unshare(rss, &error), 0);
}

TEST_F(SharedActionTest, AnUpdateThatFailsAtAnyCallChangesNothing) {
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    ASSERT_NE(create(ipv4_from(1).indirect(rss)), nullptr);
    ASSERT_NE(create(ipv4_from(2).indirect(rss)), nullptr);
    watch();
    int failures = 0;
    for (;; ++failures) {
        device.fail_call(failures + 1, ENOMEM);
        if (update(rss, RssAction({2, 3}).action) == 0) break;
        EXPECT_EQ(rte_errno, ENOMEM);
        EXPECT_THAT(queues(), Each(std::vector<uint16_t>{0, 1}));
        EXPECT_THAT(device.flows, SizeIs(2));
        EXPECT_EQ(qps.size(), 1u);
    }
    EXPECT_EQ(failures, 4); // table, QP, two flows
    EXPECT_THAT(queues(), Each(std::vector<uint16_t>{2, 3}));
}

TEST_F(SharedActionTest, AnUpdateOfAStoppedPortHoldsFromItsStart) {
    auto* const rss = share(RssAction({0, 1}).action);
    ASSERT_NE(create(ipv4_from(1).indirect(rss)), nullptr) << error.message;
    ASSERT_EQ(update(rss, RssAction({2, 3}).action), 0) << error.message;
    start();
    EXPECT_THAT(queues(), testing::ElementsAre(std::vector<uint16_t>{2, 3}));
}

TEST_F(SharedActionTest, WhatIsNotAnUpdateIsRefused) {
    device.offers_counters = true;
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    auto* const count = share_count();
    ASSERT_NE(create(ipv4_from(1).indirect(rss).indirect(count)), nullptr) << error.message;
    const auto refused_update = [&](rte_flow_action_handle* handle, const rte_flow_action& next) {
        EXPECT_LT(update(handle, next), 0);
        EXPECT_THAT(queues(), Each(std::vector<uint16_t>{0, 1}));
        return std::string(error.message);
    };
    EXPECT_THAT(refused_update(rss, RssAction({9}).action), HasSubstr("no Rx queue 9"));
    RssAction inner({2, 3});
    inner.conf.level = 2;
    EXPECT_THAT(refused_update(rss, inner.action), HasSubstr("level 2 hashes what a tunnel"));
    EXPECT_EQ(error.cause, &inner.action);
    EXPECT_THAT(refused_update(count, inner.action), HasSubstr("an indirect count cannot"));
    EXPECT_THAT(refused_update(nullptr, inner.action), HasSubstr("no such indirect action"));

    // Both would then have a part for UDP at the same level.
    ASSERT_NE(create(ipv4_from(5).item(RTE_FLOW_ITEM_TYPE_UDP).queue(0)), nullptr);
    ASSERT_NE(create(ipv4_from(5).indirect(rss)), nullptr) << error.message;
    const RssAction udp({2, 3}, RTE_ETH_RSS_NONFRAG_IPV4_UDP);
    EXPECT_LT(update(rss, udp.action), 0);
    EXPECT_THAT(error.message, HasSubstr("matches eth/ipv4/udp"));
    EXPECT_EQ(rte_errno, EEXIST);
    table.flush(&error);
    EXPECT_EQ(table.unshare(count, &error), 0);
}

/// The error points to the indirect action, not to the one behind the handle.
TEST_F(SharedActionTest, RefusalsNameTheRulesOwnAction) {
    start();
    RssAction inner({0, 1});
    inner.conf.level = 2;
    const Rule rule = ipv4_from(1).indirect(share(inner.action));
    EXPECT_EQ(create(rule), nullptr);
    EXPECT_THAT(error.message, HasSubstr("level 2 hashes what a tunnel"));
    EXPECT_EQ(error.cause, rule.actions());
}

/// Types that fit no packet of the pattern are ignored, and the next update may give others.
TEST_F(SharedActionTest, AnUpdateToTypesThatFitNothingLeavesOneQueue) {
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    ASSERT_NE(create(ipv4_from(1).indirect(rss)), nullptr) << error.message;
    ASSERT_EQ(update(rss, RssAction({3, 2}, RTE_ETH_RSS_IPV6).action), 0) << error.message;
    EXPECT_THAT(queues(), testing::ElementsAre(std::vector<uint16_t>{3}));
    ASSERT_EQ(update(rss, RssAction({3, 2}).action), 0) << error.message;
    EXPECT_THAT(queues(), testing::ElementsAre(std::vector<uint16_t>{3, 2}));
}

TEST_F(SharedActionTest, LifeOfHandles) {
    device.offers_counters = true;
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    auto* const count = share_count();
    rte_flow* const flow = create(ipv4_from(1).indirect(rss).indirect(count));
    for (auto* const handle : {rss, count}) {
        EXPECT_EQ(table.unshare(handle, &error), -EBUSY);
        EXPECT_THAT(error.message, HasSubstr("destroy them first"));
    }
    EXPECT_EQ(table.destroy(flow, &error), 0);
    for (auto* const handle : {rss, count}) {
        EXPECT_EQ(table.unshare(handle, &error), 0) << error.message;
        EXPECT_EQ(table.unshare(handle, &error), -ENOENT);
        EXPECT_THAT(refused(ipv4_from(1).indirect(handle)), HasSubstr("no such action on this"));
    }
    EXPECT_THAT(device.counters, IsEmpty());
    EXPECT_EQ(share(RssAction({0, 9}).action), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no Rx queue 9"));
    rte_flow_action mark{};
    mark.type = RTE_FLOW_ACTION_TYPE_MARK;
    EXPECT_EQ(share(mark), nullptr);
    EXPECT_THAT(error.message, HasSubstr("action mark cannot be an indirect one"));
    const rte_flow_indir_action_conf nowhere{};
    const RssAction plain({0});
    EXPECT_EQ(table.share(&nowhere, &plain.action, &error), nullptr);
    EXPECT_THAT(error.message, HasSubstr("for ingress rules, for egress"));
}

TEST_F(SharedActionTest, ASharedCountIsTheSumOfItsRules) {
    device.offers_counters = true;
    start();
    auto* const count = share_count();
    rte_flow* const one = create(ipv4_from(1).queue(0).indirect(count));
    rte_flow* const two = create(ipv4_from(2).queue(0).indirect(count));
    ASSERT_NE(two, nullptr) << error.message;
    ASSERT_THAT(device.counters, SizeIs(1));
    device.counters[0]->packets = 5;
    device.counters[0]->bytes = 500;
    rte_flow_query_count read{};
    read.reset = 1;
    ASSERT_EQ(table.query_shared(count, &read, &error), 0) << error.message;
    EXPECT_EQ(read.hits, 5u);
    EXPECT_EQ(read.bytes, 500u);
    device.counters[0]->packets = 7;
    rte_flow_action action{};
    action.type = RTE_FLOW_ACTION_TYPE_COUNT;
    for (rte_flow* const flow : {one, two}) {
        read = {};
        ASSERT_EQ(table.query(flow, &action, &read, &error), 0) << error.message;
        EXPECT_EQ(read.hits, 2u);
    }
    EXPECT_THAT(refused(ipv4_from(3).queue(0).indirect(count).indirect(count)),
                HasSubstr("has one already"));
    auto* const rss = share(RssAction({0, 1}).action);
    EXPECT_EQ(table.query_shared(rss, &read, &error), -ENOTSUP);
    EXPECT_THAT(error.message, HasSubstr("indirect rss has nothing to query"));
    // The last rule may stop counting or be destroyed, but its counts are kept.
    ASSERT_EQ(table.destroy(two, &error), 0);
    device.counters[0]->packets = 9;
    ASSERT_EQ(table.update_actions(one, Rule().queue(1).actions(), &error), 0) << error.message;
    EXPECT_EQ(hits(count), 4u);
    ASSERT_NE(create(ipv4_from(2).queue(0).indirect(count)), nullptr) << error.message;
    device.counters[0]->packets = 12;
    table.flush(&error);
    EXPECT_EQ(hits(count), 7u);
    EXPECT_EQ(table.unshare(count, &error), 0);
}

TEST_F(SharedActionTest, ARuleGetsOtherActionsWithoutAGap) {
    device.offers_counters = true;
    start();
    rte_flow* const flow = create(ipv4_from(1).queue(0).action(RTE_FLOW_ACTION_TYPE_COUNT));
    watch();
    device.counters[0]->packets = 5;
    ASSERT_EQ(
        table.update_actions(
            flow, Rule().queue(2).mark(3).action(RTE_FLOW_ACTION_TYPE_COUNT).actions(), &error),
        0)
        << error.message;
    ASSERT_THAT(device.flows, SizeIs(1));
    EXPECT_EQ(device.flows[0]->qp->queues, std::vector<uint16_t>{2});
    EXPECT_NE(device.flows[0]->find(IBV_FLOW_SPEC_ACTION_TAG), 0u);
    EXPECT_TRUE(device.rx_queues.marks);
    rte_flow_query_count read{};
    rte_flow_action count{};
    count.type = RTE_FLOW_ACTION_TYPE_COUNT;
    ASSERT_EQ(table.query(flow, &count, &read, &error), 0) << error.message;
    EXPECT_EQ(read.hits, 5u); // it keeps counting

    auto* const rss = share(RssAction({0, 1}).action);
    ASSERT_EQ(table.update_actions(flow, Rule().indirect(rss).actions(), &error), 0)
        << error.message;
    EXPECT_EQ(table.query(flow, &count, &read, &error), -EINVAL);
    EXPECT_THAT(device.counters, IsEmpty());
    ASSERT_EQ(update(rss, RssAction({2, 3}).action), 0);
    EXPECT_THAT(queues(), testing::ElementsAre(std::vector<uint16_t>{2, 3}));
    EXPECT_EQ(table.unshare(rss, &error), -EBUSY);
    ASSERT_EQ(
        table.update_actions(flow, Rule().action(RTE_FLOW_ACTION_TYPE_DROP).actions(), &error), 0);
    EXPECT_EQ(table.unshare(rss, &error), 0);
    EXPECT_NE(device.flows[0]->find(IBV_FLOW_SPEC_ACTION_DROP), 0u);

    EXPECT_LT(table.update_actions(flow, Rule().queue(9).actions(), &error), 0);
    EXPECT_THAT(error.message, HasSubstr("no Rx queue 9"));
    EXPECT_LT(table.update_actions(nullptr, Rule().queue(0).actions(), &error), 0);
}

TEST_F(SharedActionTest, ARuleThatCountsForItselfLeavesTheSharedCount) {
    device.offers_counters = true;
    start();
    auto* const shared = share_count();
    rte_flow* const flow = create(ipv4_from(1).queue(0).indirect(shared));
    ASSERT_NE(flow, nullptr) << error.message;
    device.counters[0]->packets = 5;
    const rte_flow_action count{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    const Rule next = Rule().queue(0).action(RTE_FLOW_ACTION_TYPE_COUNT);
    ASSERT_EQ(table.update_actions(flow, next.actions(), &error), 0) << error.message;
    rte_flow_query_count read{};
    ASSERT_EQ(table.query(flow, &count, &read, &error), 0) << error.message;
    EXPECT_EQ(read.hits, 0u);
    EXPECT_EQ(table.unshare(shared, &error), 0);
}

TEST_F(SharedActionTest, WithoutALevelToSpareNoRuleTakesOver) {
    start();
    rte_flow* flow = nullptr;
    for (uint32_t priority = 0; priority < 10; ++priority) {
        Rule rule = ipv4_from(1).queue(0);
        rule.attr.priority = priority;
        flow = create(rule);
        ASSERT_NE(flow, nullptr) << error.message;
    }
    EXPECT_EQ(table.update_actions(flow, Rule().queue(1).actions(), &error), -ENOSPC);
    EXPECT_THAT(error.message, HasSubstr("all 10 steering priorities"));
}

/// No replacement is in a list of rules before all of them are installed.
TEST_F(SharedActionTest, RulesThatTakeOverMakeRoomForEachOther) {
    start();
    auto* const rss = share(RssAction({0, 1}).action);
    for (const uint32_t priority : {0u, 1u, 2u, 3u, 4u}) {
        Rule rule = ipv4_from(priority).indirect(rss);
        rule.attr.priority = priority;
        ASSERT_NE(create(rule), nullptr) << error.message;
    }
    watch();
    ASSERT_EQ(update(rss, RssAction({2, 3}).action), 0) << error.message;
    std::map<uint16_t, uint32_t> sources;
    for (const auto& flow : device.flows) {
        const Bytes match = match_of(*flow);
        ibv_flow_spec_ipv4_ext ip{}; // the last spec of two
        std::memcpy(&ip, &match[match.size() - sizeof ip], sizeof ip);
        EXPECT_TRUE(sources.emplace(flow->level(), rte_be_to_cpu_32(ip.val.src_ip)).second);
    }
    EXPECT_THAT(sources, SizeIs(5));
    uint32_t priority = 0;
    for (const auto& [level, source] : sources)
        EXPECT_EQ(source, priority++) << "at level " << level;
}

TEST_F(SharedActionTest, ThePriorityThatNeedsItGetsTheLevelThatAnUpdateTook) {
    start();
    const auto rule_of = [](uint32_t priority) {
        Rule rule = ipv4_from(1).queue(0);
        rule.attr.priority = priority;
        return rule;
    };
    for (uint32_t priority = 0; priority < 9; ++priority)
        ASSERT_NE(create(rule_of(priority)), nullptr) << error.message;
    rte_flow* const updated = create(ipv4_from(2).queue(0));
    ASSERT_NE(updated, nullptr) << error.message;
    ASSERT_EQ(table.update_actions(updated, Rule().queue(1).actions(), &error), 0);
    EXPECT_NE(create(rule_of(9)), nullptr) << error.message; // priority 0 shares a level again
    EXPECT_LT(table.update_actions(updated, Rule().queue(2).actions(), &error), 0);
    table.stop();
    start();
    EXPECT_THAT(device.flows, SizeIs(11));
}

} // namespace
} // namespace rawqp::test
