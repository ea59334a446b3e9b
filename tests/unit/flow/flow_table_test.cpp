// SPDX-License-Identifier: BSD-3-Clause
// The life cycle of rte_flow rules: actions, RSS expansion, stop and start, failures halfway.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/flow/flow_table.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

TEST_F(FlowTableTest, QueueRuleReachesItsQueue) {
    start();
    ASSERT_NE(create(udp_to(53, 2)), nullptr) << error.message;
    ASSERT_THAT(device.flows, SizeIs(1));
    const auto& flow = *device.flows[0];
    EXPECT_EQ(flow.qp->queues, std::vector<uint16_t>{2});
    EXPECT_EQ(flow.qp->hash_fields, 0u);
    EXPECT_EQ(flow.level(), 0);
    EXPECT_EQ(flow.attr().num_of_specs, 3);
}

TEST_F(FlowTableTest, PrioritiesAndDepthsBecomeLevels) {
    start();
    Rule l2 = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).queue(0);
    Rule l3 = Rule().item(RTE_FLOW_ITEM_TYPE_IPV6).queue(1);
    l3.attr.priority = l2.attr.priority = 2;
    ASSERT_NE(create(l2), nullptr);
    ASSERT_NE(create(l3), nullptr);
    EXPECT_EQ(device.flows[0]->level(), 8);
    EXPECT_EQ(device.flows[1]->level(), 7);
}

TEST_F(FlowTableTest, ThatAClassOfAnRssIsAnotherRulesMatchIsSaid) {
    start();
    Rule ipv4 = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4).queue(1);
    Rule rss = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).rss({0, 1}, RTE_ETH_RSS_IPV4);
    const auto of_class = HasSubstr("the types of an rss make a rule of its own of eth/ipv4");
    ASSERT_NE(create(ipv4), nullptr) << error.message;
    EXPECT_THAT(refused(rss), of_class);
    rss.attr.priority = ipv4.attr.priority = 1;
    EXPECT_NE(create(rss), nullptr) << error.message;
    EXPECT_THAT(refused(ipv4), of_class);
    EXPECT_THAT(refused(rss), StartsWith("a rule of the same priority matches eth/ipv4 with"));
}

/// An application that undoes its work may get another error before it shows the first one.
TEST_F(FlowTableTest, TheTextOfAnErrorOutlivesTheNextOne) {
    start();
    EXPECT_EQ(create(Rule().item(RTE_FLOW_ITEM_TYPE_UDP).queue(0)), nullptr);
    const rte_flow_error first = error;
    EXPECT_LT(table.destroy(static_cast<rte_flow*>(nullptr), &error), 0);
    EXPECT_THAT(first.message, HasSubstr("item udp is out of order"));
    EXPECT_THAT(error.message, HasSubstr("no such rule"));
}

TEST_F(FlowTableTest, RssExpandsByClass) {
    start();
    const uint64_t types = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV4_TCP;
    ASSERT_NE(create(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).rss({0, 2}, types)), nullptr);
    ASSERT_THAT(device.flows, SizeIs(3));
    const auto& tcp = *device.flows[0];
    EXPECT_NE(tcp.find(IBV_FLOW_SPEC_TCP), 0u);
    EXPECT_EQ(tcp.qp->hash_fields, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
                                       IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP);
    EXPECT_EQ(tcp.qp->queues, (std::vector<uint16_t>{0, 2}));
    EXPECT_EQ(tcp.level(), 0);
    const auto& ipv4 = *device.flows[1];
    EXPECT_EQ(ipv4.find(IBV_FLOW_SPEC_TCP), 0u);
    EXPECT_EQ(ipv4.qp->hash_fields, uint64_t{IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4});
    EXPECT_EQ(ipv4.level(), 1);
    const auto& rest = *device.flows[2];
    EXPECT_EQ(rest.qp->hash_fields, 0u);
    EXPECT_EQ(rest.qp->queues, std::vector<uint16_t>{0});
    EXPECT_EQ(rest.level(), 2);
}

TEST_F(FlowTableTest, RssKeyAndOddNumbersOfQueues) {
    start();
    RssKey key{};
    key.fill(0x5a);
    const uint16_t list[] = {3, 0, 1};
    rte_flow_action_rss conf{};
    conf.func = RTE_ETH_HASH_FUNCTION_TOEPLITZ;
    conf.level = 1;
    conf.types = RTE_ETH_RSS_IPV4;
    conf.key = key.data();
    conf.key_len = kRssKeyBytes;
    conf.queue = list;
    conf.queue_num = 3;
    ASSERT_NE(create(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).action(RTE_FLOW_ACTION_TYPE_RSS, &conf)),
              nullptr);
    ASSERT_THAT(device.flows, SizeIs(1));
    const auto& qp = *device.flows[0]->qp;
    EXPECT_EQ(qp.key, key);
    ASSERT_THAT(qp.queues, SizeIs(64));
    for (const uint16_t queue : list)
        EXPECT_NEAR(std::count(qp.queues.begin(), qp.queues.end(), queue), 21.3, 1.0);
}

TEST_F(FlowTableTest, RssRefusals) {
    start();
    const auto rss = [](auto&& edit) {
        rte_flow_action_rss conf{};
        static const uint16_t list[] = {0, 1};
        conf.types = RTE_ETH_RSS_IP;
        conf.queue = list;
        conf.queue_num = 2;
        edit(conf);
        return Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).action(RTE_FLOW_ACTION_TYPE_RSS, &conf);
    };
    EXPECT_EQ(validate(rss([](auto&) {})), 0);
    EXPECT_THAT(refused(rss([](auto& conf) { conf.func = RTE_ETH_HASH_FUNCTION_SIMPLE_XOR; })),
                HasSubstr("hash function"));
    EXPECT_THAT(refused(rss([](auto& conf) { conf.level = 2; })),
                HasSubstr("level 2 hashes what a"));
    EXPECT_THAT(refused(rss([](auto& conf) { conf.level = 3; })), HasSubstr("level 3"));
    EXPECT_THAT(refused(rss([](auto& conf) { conf.types = RTE_ETH_RSS_ETH; })),
                HasSubstr("types eth are not"));
    EXPECT_THAT(refused(rss([](auto& conf) { conf.queue_num = 0; })), HasSubstr("no queues"));
    static const uint8_t key[52] = {};
    EXPECT_THAT(refused(rss([](auto& conf) {
                    conf.key = key;
                    conf.key_len = sizeof key;
                })),
                HasSubstr("hash key has 40 bytes, not 52"));
    static const uint16_t bad[] = {0, 9};
    EXPECT_THAT(refused(rss([](auto& conf) { conf.queue = bad; })),
                HasSubstr("action rss: no Rx queue 9"));
}

/// They are ignored, as rte_flow's guide says: nothing is hashed.
TEST_F(FlowTableTest, TypesOfAnRssThatFitNoPacketOfThePattern) {
    start();
    ASSERT_NE(create(Rule().item(RTE_FLOW_ITEM_TYPE_IPV4).rss({2, 0}, RTE_ETH_RSS_IPV6)), nullptr)
        << error.message;
    ASSERT_THAT(device.flows, SizeIs(1));
    const auto& qp = *device.flows[0]->qp;
    EXPECT_EQ(qp.hash_fields, 0u);
    EXPECT_EQ(qp.queues, std::vector<uint16_t>{2});
}

TEST_F(FlowTableTest, RssOfWhatATunnelCarries) {
    start();
    static const uint16_t list[] = {0, 1};
    rte_flow_action_rss conf{};
    conf.level = 2;
    conf.types = RTE_ETH_RSS_NONFRAG_IPV4_UDP;
    conf.queue = list;
    conf.queue_num = 2;
    ASSERT_NE(create(Rule()
                         .item(RTE_FLOW_ITEM_TYPE_IPV6)
                         .item(RTE_FLOW_ITEM_TYPE_UDP)
                         .item(RTE_FLOW_ITEM_TYPE_VXLAN)
                         .action(RTE_FLOW_ACTION_TYPE_RSS, &conf)),
              nullptr)
        << error.message;
    ASSERT_THAT(device.flows, SizeIs(2));
    const auto& inner = *device.flows[0];
    EXPECT_NE(inner.find(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_IPV4_EXT), 0u);
    EXPECT_NE(inner.find(IBV_FLOW_SPEC_INNER | IBV_FLOW_SPEC_UDP), 0u);
    EXPECT_EQ(inner.qp->hash_fields, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4 |
                                         IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP |
                                         IBV_RX_HASH_INNER);
    EXPECT_EQ(device.flows[1]->qp->hash_fields, 0u);
}

TEST_F(FlowTableTest, MarkAndFlagAndDrop) {
    start();
    EXPECT_FALSE(device.rx_queues.marks);
    rte_flow* marked = create(udp_to(1, 0).mark(0));
    ASSERT_NE(marked, nullptr);
    EXPECT_TRUE(device.rx_queues.marks);
    ASSERT_NE(create(udp_to(2, 0).mark(kMarkMax)), nullptr);
    ASSERT_NE(create(udp_to(3, 0).action(RTE_FLOW_ACTION_TYPE_FLAG)), nullptr);
    Rule drop = udp_to(4, 0);
    ASSERT_NE(create(Rule().item(RTE_FLOW_ITEM_TYPE_IPV6).action(RTE_FLOW_ACTION_TYPE_DROP)),
              nullptr);
    const auto tag = [&](size_t i) {
        return device.flows[i]->spec<ibv_flow_spec_action_tag>(IBV_FLOW_SPEC_ACTION_TAG)->tag_id;
    };
    EXPECT_EQ(tag(0), tag_of_mark(0));
    EXPECT_EQ(tag(1), tag_of_mark(kMarkMax));
    EXPECT_EQ(tag(2), kFlowTagFlag);
    EXPECT_EQ(device.flows[3]->find(IBV_FLOW_SPEC_ACTION_TAG), 0u);
    EXPECT_NE(device.flows[3]->find(IBV_FLOW_SPEC_ACTION_DROP), 0u);
    rte_flow_action_modify_field modify{};
    modify.dst.field = RTE_FLOW_FIELD_MARK;
    modify.src.field = RTE_FLOW_FIELD_VALUE;
    modify.src.value[0] = 7;
    modify.width = 24;
    ASSERT_NE(create(udp_to(5, 0).action(RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, &modify)), nullptr);
    uint32_t number = 0;
    std::memcpy(&number, modify.src.value, sizeof number);
    EXPECT_EQ(tag(4), tag_of_mark(number));
    EXPECT_THAT(refused(udp_to(6, 0).mark(kMarkMax + 1)), HasSubstr("action mark: id 0xfffffe"));
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ACTION_CONF);
}

// Without a mask, rte_flow's default mask asks for some of their fields.
TEST_F(FlowTableTest, SpecsOfHeadersWithoutMatchableFields) {
    start();
    auto arp = zeroed<rte_flow_item_arp_eth_ipv4>();
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_ARP_ETH_IPV4, &arp).queue(0)),
                HasSubstr("item arp_eth_ipv4: field header cannot be matched"));
    const Rule ipv4 = Rule().item(RTE_FLOW_ITEM_TYPE_IPV4);
    auto igmp = zeroed<rte_flow_item_igmp>();
    EXPECT_THAT(refused(Rule(ipv4).item(RTE_FLOW_ITEM_TYPE_IGMP, &igmp).queue(0)),
                HasSubstr("item igmp: field header cannot be matched"));
    auto ah = zeroed<rte_flow_item_ah>();
    EXPECT_THAT(refused(Rule(ipv4).item(RTE_FLOW_ITEM_TYPE_AH, &ah).queue(0)),
                HasSubstr("item ah: field header cannot be matched"));
    EXPECT_NE(create(Rule(ipv4).item(RTE_FLOW_ITEM_TYPE_AH, &ah, &ah).queue(0)), nullptr)
        << "a mask of zeros asks for none";
}

TEST_F(FlowTableTest, ActionRefusals) {
    start();
    EXPECT_THAT(refused(udp_to(1, 4)), HasSubstr("action queue: no Rx queue 4"));
    EXPECT_THAT(refused(udp_to(1, 0).action(RTE_FLOW_ACTION_TYPE_DROP)),
                HasSubstr("action drop: the rule has queue already"));
    EXPECT_THAT(refused(udp_to(1, 0).mark(1).mark(2)), HasSubstr("has mark already"));
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).mark(1)), HasSubstr("no fate action"));
    EXPECT_THAT(
        refused(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).mark(1).action(RTE_FLOW_ACTION_TYPE_DROP)),
        HasSubstr("no effect on dropped"));
    EXPECT_THAT(refused(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).action(RTE_FLOW_ACTION_TYPE_QUEUE)),
                HasSubstr("action queue: its configuration is missing"));
    EXPECT_THAT(refused(udp_to(1, 0).action(RTE_FLOW_ACTION_TYPE_PF)),
                HasSubstr("is not supported"));
    EXPECT_THAT(refused(udp_to(1, 0).action(RTE_FLOW_ACTION_TYPE_COUNT)),
                HasSubstr("action count: the device offers no flow counters"));
}

TEST_F(FlowTableTest, AttributeRefusals) {
    start();
    const auto with = [](auto&& edit) {
        Rule rule = udp_to(1, 0);
        edit(rule.attr);
        return rule;
    };
    EXPECT_THAT(refused(with([](auto& attr) { attr.group = 1; })), HasSubstr("groups above 0"));
    EXPECT_THAT(refused(with([](auto& attr) { attr.egress = 1; })), HasSubstr("two directions"));
    EXPECT_THAT(refused(with([](auto& attr) { attr.transfer = 1; })), HasSubstr("transfer"));
    EXPECT_THAT(refused(with([](auto& attr) { attr.ingress = 0; })), HasSubstr("no direction"));
    EXPECT_LT(table.validate(nullptr, udp_to(1, 0).pattern(), udp_to(1, 0).actions(), &error), 0);
}

TEST_F(FlowTableTest, TheSameMatchTwiceIsRefusedUntilDestroyed) {
    start();
    rte_flow* first = create(udp_to(53, 1));
    ASSERT_NE(first, nullptr);
    EXPECT_THAT(refused(udp_to(53, 2)), HasSubstr("matches eth/ipv4/udp"));
    EXPECT_EQ(rte_errno, EEXIST);
    Rule elsewhere = udp_to(53, 2);
    elsewhere.attr.priority = 1;
    EXPECT_NE(create(elsewhere), nullptr);
    ASSERT_EQ(table.destroy(first, &error), 0);
    EXPECT_NE(create(udp_to(53, 2)), nullptr);
}

TEST_F(FlowTableTest, StopTakesRulesOutAndStartPutsThemBack) {
    ASSERT_NE(create(udp_to(1, 1)), nullptr); // kept until the port starts
    EXPECT_THAT(device.flows, IsEmpty());
    start();
    EXPECT_THAT(device.flows, SizeIs(1));
    ASSERT_NE(create(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).rss({0, 1})), nullptr);
    const auto specs = [&] {
        std::vector<Bytes> list;
        for (const auto* flow : device.rules())
            list.push_back(flow->bytes);
        return list;
    };
    const auto before = specs();
    for (int round = 0; round < 3; ++round) {
        table.stop();
        EXPECT_THAT(device.flows, IsEmpty());
        EXPECT_EQ(qps.size(), 0u);
        start();
        EXPECT_EQ(specs(), before);
    }
}

TEST_F(FlowTableTest, StartFailsWholeWhenAQueueIsGone) {
    ASSERT_NE(create(udp_to(1, 0)), nullptr);
    ASSERT_NE(create(udp_to(2, 3)), nullptr);
    device.set_up_rx_queues(2);
    const auto started = table.start();
    ASSERT_FALSE(started);
    EXPECT_THAT(started.error().what, HasSubstr("rte_flow rule 2 of 2"));
    EXPECT_THAT(started.error().what, HasSubstr("Rx queue 3"));
    EXPECT_THAT(device.flows, IsEmpty());
}

TEST_F(FlowTableTest, BeforeQueuesExistRulesWaitForStart) {
    device.set_up_rx_queues(0);
    ASSERT_NE(create(udp_to(1, 0)), nullptr) << error.message;
    device.set_up_rx_queues(2);
    start();
    EXPECT_THAT(device.flows, SizeIs(1));
}

TEST_F(FlowTableTest, AFailureAtAnyCallLeavesNothing) {
    start();
    const uint64_t types = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
    const Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).rss({0, 1}, types);
    ASSERT_EQ(validate(rule), 0); // finds out the device's priorities
    int failures = 0;
    for (int nth = 1;; ++nth) {
        device.fail_call(nth, ENOMEM);
        if (create(rule) != nullptr) break;
        ++failures;
        EXPECT_EQ(rte_errno, ENOMEM);
        EXPECT_THAT(error.message, HasSubstr("resources"));
        EXPECT_THAT(device.flows, IsEmpty());
        EXPECT_EQ(qps.size(), 0u);
    }
    EXPECT_EQ(failures, 3 * 7); // table, QP and flow for each class
    EXPECT_THAT(device.flows, SizeIs(7));
}

TEST_F(FlowTableTest, ErrnosOfTheDeviceAreExplained) {
    start();
    ASSERT_EQ(validate(udp_to(1, 0)), 0);
    const std::pair<int, const char*> cases[] = {{EPERM, "CAP_NET_RAW"},
                                                 {EEXIST, "already"},
                                                 {EBUSY, "in use"},
                                                 {ENOMEM, "out of resources"},
                                                 {EOPNOTSUPP, "does not offer"},
                                                 {EINVAL, "refuses this combination"}};
    for (const auto& [code, text] : cases) {
        device.refuse_flow = [code = code](const verbs_test::Flow&) { return code; };
        EXPECT_THAT(refused(udp_to(1, 0)), HasSubstr(text));
        EXPECT_EQ(rte_errno, code);
    }
    device.refuse_flow = nullptr;
}

TEST_F(FlowTableTest, ValidateAsksTheDeviceWithoutTouchingTraffic) {
    start();
    device.refuse_flow = [](const verbs_test::Flow& flow) {
        const auto eth = flow.spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
        EXPECT_EQ(Bytes(eth->val.src_mac, eth->val.src_mac + 6), hex("ffffffffffff"));
        EXPECT_EQ(Bytes(eth->mask.src_mac, eth->mask.src_mac + 6), hex("ffffffffffff"));
        return 0;
    };
    const unsigned before = device.calls();
    EXPECT_EQ(validate(udp_to(1, 0)), 0);
    EXPECT_GT(device.calls(), before);
    EXPECT_THAT(device.flows, IsEmpty());
    device.refuse_flow = nullptr;
}

TEST_F(FlowTableTest, AnyVlanIsOneRuleForTheApplication) {
    start();
    rte_flow* flow =
        create(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_VLAN).queue(1));
    ASSERT_NE(flow, nullptr);
    EXPECT_THAT(device.flows, SizeIs(2));
    EXPECT_EQ(table.destroy(flow, &error), 0);
    EXPECT_THAT(device.flows, IsEmpty());
}

TEST_F(FlowTableTest, StaleAndForeignHandles) {
    start();
    rte_flow* flow = create(udp_to(1, 0));
    ASSERT_EQ(table.destroy(flow, &error), 0);
    EXPECT_EQ(table.destroy(flow, &error), -EINVAL);
    EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_HANDLE);
    EXPECT_EQ(table.destroy(static_cast<rte_flow*>(nullptr), &error), -EINVAL);
}

TEST_F(FlowTableTest, ThousandsOfRules) {
    start();
    for (uint32_t port = 1; port <= 5000; ++port)
        ASSERT_NE(create(udp_to(static_cast<uint16_t>(port), port % 4)), nullptr);
    EXPECT_EQ(device.flows.size(), 5000u);
    EXPECT_EQ(qps.size(), 4u);
}

TEST_F(FlowTableTest, CountersOutliveStopAndReset) {
    device.offers_counters = true;
    start();
    rte_flow* flow = create(udp_to(1, 0).action(RTE_FLOW_ACTION_TYPE_COUNT));
    ASSERT_NE(flow, nullptr) << error.message;
    ASSERT_THAT(device.counters, SizeIs(1));
    const auto count =
        device.flows[0]->spec<ibv_flow_spec_counter_action>(IBV_FLOW_SPEC_ACTION_COUNT);
    EXPECT_EQ(count->counters, device.counters[0].get());

    const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    rte_flow_query_count result{};
    device.counters[0]->packets = 10;
    device.counters[0]->bytes = 640;
    result.reset = 1;
    ASSERT_EQ(table.query(flow, &action, &result, &error), 0);
    EXPECT_EQ(result.hits, 10u);
    EXPECT_EQ(result.bytes, 640u);
    EXPECT_TRUE(result.hits_set && result.bytes_set);
    device.counters[0]->packets = 12;
    table.stop();
    result = {};
    ASSERT_EQ(table.query(flow, &action, &result, &error), 0) << error.message;
    EXPECT_EQ(result.hits, 2u);
    start();
    device.counters[0]->packets = 13;
    result = {};
    ASSERT_EQ(table.query(flow, &action, &result, &error), 0);
    EXPECT_EQ(result.hits, 3u);

    rte_flow* plain = create(udp_to(2, 0));
    EXPECT_EQ(table.query(plain, &action, &result, &error), -EINVAL);
    EXPECT_THAT(error.message, HasSubstr("no count action"));
}

/// In whatever order an application sets up its stopped port.
TEST_F(FlowTableTest, RulesMayPrecedeTheirQueues) {
    for (const uint16_t there : {0, 1, 2}) { // queues 2 and 3 are set up later
        device.set_up_rx_queues(there);
        rte_flow* const rule = create(udp_to(7, 3));
        ASSERT_NE(rule, nullptr) << error.message;
        EXPECT_FALSE(table.start()) << "now it is too late";
        device.set_up_rx_queues(4);
        start();
        EXPECT_THAT(device.flows, testing::SizeIs(1));
        table.stop();
        ASSERT_EQ(table.destroy(rule, &error), 0);
    }
}

} // namespace
} // namespace rawqp::test
