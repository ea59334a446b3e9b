// SPDX-License-Identifier: BSD-3-Clause
// rte_flow rules and port stop: RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP says that they stay.
#include "tests/functional/ethdev/port.hpp"

namespace test {
namespace {

class FlowKeep : public PortTest {
  protected:
    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(PortTest::SetUp());
        rte_eth_dev_info info{};
        ASSERT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
        ASSERT_TRUE(info.dev_capa & RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP);
        ASSERT_EQ(queue_of(kTestType), 0) << "without a rule";
    }
    void TearDown() override {
        rte_flow_error error{};
        EXPECT_EQ(rte_flow_flush(kPort, &error), 0) << error.message;
        PortTest::TearDown();
    }

    /// Frames of this EtherType go to this queue.
    [[nodiscard]] static rte_flow* add_rule(uint16_t ether_type, uint16_t queue) {
        rte_flow_item_eth spec{}, mask{};
        spec.hdr.ether_type = rte_cpu_to_be_16(ether_type);
        mask.hdr.ether_type = 0xffff;
        const rte_flow_item pattern[] = {
            {.type = RTE_FLOW_ITEM_TYPE_ETH, .spec = &spec, .last = nullptr, .mask = &mask},
            {.type = RTE_FLOW_ITEM_TYPE_END, .spec = nullptr, .last = nullptr, .mask = nullptr}};
        const rte_flow_action_queue target{.index = queue};
        const rte_flow_action actions[] = {{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &target},
                                           {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr}};
        rte_flow_attr attributes{};
        attributes.ingress = 1;
        rte_flow_error error{};
        rte_flow* const rule = rte_flow_create(kPort, &attributes, pattern, actions, &error);
        EXPECT_NE(rule, nullptr) << error.message;
        return rule;
    }
    /// The queue on which such a frame comes back; -1: on none.
    [[nodiscard]] static int queue_of(uint16_t ether_type) {
        EXPECT_TRUE(send(mbuf_of(rx_pool(), frame(1, 100, ether_type))));
        for (unsigned patience = 0; patience < 5000; ++patience)
            for (uint16_t queue = 0; queue < kQueues; ++queue)
                if (rte_mbuf* const packet = receive(queue, 1)) {
                    rte_pktmbuf_free(packet);
                    return queue;
                }
        return -1;
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

} // namespace
} // namespace test
