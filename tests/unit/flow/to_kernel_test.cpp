// SPDX-License-Identifier: BSD-3-Clause
// Action send_to_kernel: what the device is asked for, and what does not go with it.
#include "tests/unit/flow/flow_table.hpp"

namespace rawqp::test {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

class ToKernelTest : public FlowTableTest {
  protected:
    ToKernelTest() : FlowTableTest(FlowEngine::mlx5) {}
    void SetUp() override { start(); }
    static Rule arp() {
        rte_flow_item_eth type{};
        type.hdr.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP);
        return Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &type);
    }
    static Rule passing() { return arp().action(RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL); }
};

TEST_F(ToKernelTest, SkipsTheOtherRules) {
    ASSERT_NE(create(passing()), nullptr) << error.message;
    ASSERT_EQ(device.flows.size(), 1u);
    EXPECT_THAT(device.flows[0]->actions, ElementsAre(Field(&mlx5dv_flow_action_attr::type,
                                                            MLX5DV_FLOW_ACTION_DEFAULT_MISS)));
    EXPECT_THAT(device.qps, IsEmpty()); // it leads to no queue
}

TEST_F(ToKernelTest, IsCounted) {
    Rule rule = passing().action(RTE_FLOW_ACTION_TYPE_COUNT);
    rte_flow* const flow = create(rule);
    ASSERT_NE(flow, nullptr) << error.message;
    rte_flow_query_count counts{};
    EXPECT_EQ(table.query(flow, &rule.actions()[1], &counts, &error), 0) << error.message;
}

TEST_F(ToKernelTest, IsOfGroupZero) {
    Rule later = passing();
    later.attr.group = 1;
    EXPECT_THAT(refused(later), HasSubstr("use it in group 0"));
    Rule sent = passing();
    sent.attr.ingress = 0;
    sent.attr.egress = 1;
    EXPECT_THAT(refused(sent), HasSubstr("is for received packets"));
}

TEST_F(ToKernelTest, IsTheOnlyDestinationOfPacketsAsTheyCame) {
    EXPECT_THAT(refused(passing().queue(0)), HasSubstr("has send_to_kernel already"));
    EXPECT_THAT(refused(passing().mark(1)),
                HasSubstr("no effect on packets that go to the kernel"));
    const rte_flow_action_set_ttl ttl{1};
    Rule changing = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4);
    changing.action(RTE_FLOW_ACTION_TYPE_SET_TTL, &ttl).action(RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL);
    EXPECT_THAT(refused(changing), HasSubstr("as they came"));
    const Rule copies = Rule().queue(1);
    const rte_flow_action_sample sample{1, copies.actions()};
    EXPECT_THAT(refused(arp()
                            .action(RTE_FLOW_ACTION_TYPE_SAMPLE, &sample)
                            .action(RTE_FLOW_ACTION_TYPE_SEND_TO_KERNEL)),
                HasSubstr("leave action meter or sample out"));
}

TEST_F(ToKernelTest, OutlivesAStop) {
    rte_flow* const flow = create(passing());
    ASSERT_NE(flow, nullptr) << error.message;
    table.stop();
    EXPECT_THAT(device.flows, IsEmpty());
    start();
    EXPECT_EQ(device.flows.size(), 1u);
    ASSERT_EQ(table.update_actions(flow, Rule().queue(1).actions(), &error), 0) << error.message;
    EXPECT_EQ(device.qps.size(), 1u);
    const Rule back = passing();
    ASSERT_EQ(table.update_actions(flow, back.actions(), &error), 0) << error.message;
    EXPECT_THAT(device.qps, IsEmpty());
}

} // namespace
} // namespace rawqp::test
