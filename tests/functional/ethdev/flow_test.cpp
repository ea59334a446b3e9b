// SPDX-License-Identifier: BSD-3-Clause
// rte_flow rules, indirect actions and port stop: RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP and
// RTE_ETH_DEV_CAPA_FLOW_SHARED_OBJECT_KEEP say that they are kept. Also an item that testpmd 22.11
// cannot express.
#include "tests/functional/ethdev/flow_rules.hpp"

namespace test {
namespace {

class FlowKeep : public FlowRules {
  protected:
    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(PortTest::SetUp());
        rte_eth_dev_info info{};
        ASSERT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
        ASSERT_TRUE(info.dev_capa & RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP);
        ASSERT_EQ(queue_of(kTestType), 0) << "without a rule";
    }
    /// Sends frames of this EtherType to this queue, or through this action.
    template <class Action>
    [[nodiscard]] static rte_flow* add_rule(uint16_t ether_type, Action action) {
        rte_flow_item_eth spec{}, mask{};
        spec.hdr.ether_type = rte_cpu_to_be_16(ether_type);
        mask.hdr.ether_type = 0xffff;
        const rte_flow_item pattern[] = {
            {.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = &spec, .last = nullptr, .mask = &mask},
            {.type = RTE_FLOW_ITEM_TYPE_END, .spec = nullptr, .last = nullptr, .mask = nullptr}};
        return FlowRules::add_rule(pattern, action);
    }
    [[nodiscard]] static int queue_of(uint16_t ether_type) {
        return FlowRules::queue_of(frame(1, 100, ether_type));
    }
};

TEST_F(FlowKeep, ARuleMadeWhileRunningOutlivesTheStop) {
    rte_flow* const rule = add_rule(kTestType, 1);
    EXPECT_EQ(queue_of(kTestType), 1);
    for (int round = 0; round < 3; ++round) {
        ASSERT_NO_FATAL_FAILURE(restart());
        EXPECT_EQ(queue_of(kTestType), 1);
    }
    rte_flow_error error{};
    EXPECT_EQ(rte_flow_destroy(kPort, rule, &error), 0);
    EXPECT_EQ(queue_of(kTestType), 0);
    ASSERT_NO_FATAL_FAILURE(restart());
    EXPECT_EQ(queue_of(kTestType), 0) << "what was destroyed stays away";
}

TEST_F(FlowKeep, ARuleCanBeDestroyedWhileStopped) {
    rte_flow* const rule = add_rule(kTestType, 1);
    (void)add_rule(kTestType + 1, 1);
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    rte_flow_error error{};
    EXPECT_EQ(rte_flow_destroy(kPort, rule, &error), 0);
    ASSERT_EQ(rte_eth_dev_start(kPort), 0);
    EXPECT_EQ(queue_of(kTestType), 0);
    EXPECT_EQ(queue_of(kTestType + 1), 1);
}

TEST_F(FlowKeep, RulesOutliveTheirQueuesBeingSetUpAgain) {
    (void)add_rule(kTestType, 1);
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    ASSERT_NO_FATAL_FAILURE(start(rx_pool()));
    EXPECT_EQ(queue_of(kTestType), 1);
}

TEST_F(FlowKeep, AnIndirectActionOutlivesTheStop) {
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
    ASSERT_TRUE(info.dev_capa & RTE_ETH_DEV_CAPA_FLOW_SHARED_OBJECT_KEEP);
    const uint16_t queues[] = {1};
    rte_flow_action_rss rss{};
    rss.queue = queues;
    rss.queue_num = 1;
    const rte_flow_action action{.type = RTE_FLOW_ACTION_TYPE_RSS, .conf = &rss};
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    rte_flow_error error{};
    auto* const handle = rte_flow_action_handle_create(kPort, &directions, &action, &error);
    ASSERT_NE(handle, nullptr) << error.message;
    ASSERT_NO_FATAL_FAILURE(restart());
    rte_flow* const rule =
        add_rule(kTestType, rte_flow_action{.type = RTE_FLOW_ACTION_TYPE_INDIRECT, .conf = handle});
    EXPECT_EQ(queue_of(kTestType), 1);
    ASSERT_NO_FATAL_FAILURE(restart());
    EXPECT_EQ(queue_of(kTestType), 1);
    EXPECT_EQ(rte_flow_destroy(kPort, rule, &error), 0);
    EXPECT_EQ(rte_flow_action_handle_destroy(kPort, handle, &error), 0);
}

class FlowIgmp : public FlowRules {
  protected:
    /// An IGMP message (type 0x11: a query), or the same of another protocol.
    [[nodiscard]] static Frame message(uint8_t protocol, uint8_t type) {
        Frame made = frame(1, 60, RTE_ETHER_TYPE_IPV4);
        auto& ip = *reinterpret_cast<rte_ipv4_hdr*>(&made[sizeof(rte_ether_hdr)]);
        ip = {};
        ip.version_ihl = RTE_IPV4_VHL_DEF;
        ip.total_length =
            rte_cpu_to_be_16(static_cast<uint16_t>(made.size() - sizeof(rte_ether_hdr)));
        ip.time_to_live = 1;
        ip.next_proto_id = protocol;
        ip.src_addr = rte_cpu_to_be_32(0x0a000001);
        ip.dst_addr = rte_cpu_to_be_32(0x0a000002);
        ip.hdr_checksum = rte_ipv4_cksum(&ip);
        made[sizeof(rte_ether_hdr) + sizeof ip] = type;
        return made;
    }
};

TEST_F(FlowIgmp, TakesAllMessagesAndNoOtherProtocol) {
    constexpr uint8_t kIgmp = 2, kQuery = 0x11;
    const rte_flow_item pattern[] = {
        {.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = nullptr, .last = nullptr, .mask = nullptr},
        {.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = nullptr, .last = nullptr, .mask = nullptr},
        {.type = RTE_FLOW_ITEM_TYPE_IGMP, .spec = nullptr, .last = nullptr, .mask = nullptr},
        {.type = RTE_FLOW_ITEM_TYPE_END, .spec = nullptr, .last = nullptr, .mask = nullptr}};
    EXPECT_EQ(queue_of(message(kIgmp, kQuery)), 0) << "without a rule";
    ASSERT_NE(add_rule(pattern, 1), nullptr);
    EXPECT_EQ(queue_of(message(kIgmp, kQuery)), 1);
    for (unsigned bit = 0; bit < 8; ++bit) {
        EXPECT_EQ(queue_of(message(kIgmp ^ 1u << bit, kQuery)), 0) << "bit " << bit;
        EXPECT_EQ(queue_of(message(kIgmp, kQuery ^ 1u << bit)), 1)
            << "bit " << bit << " of the type";
    }
}

} // namespace
} // namespace test
