// SPDX-License-Identifier: BSD-3-Clause
// Which tunnel types rules bring to a queue, and whether there is only one.
#include "drivers/net/rawqp/ethdev/steering/tunnels.hpp"
#include "tests/unit/flow/flow_table.hpp"

namespace rawqp::test {
namespace {

constexpr uint32_t kVxlan = RTE_PTYPE_TUNNEL_VXLAN, kGre = RTE_PTYPE_TUNNEL_GRE;

class TunnelsTest : public FlowTableTest {
  protected:
    TunnelsTest() : FlowTableTest(FlowEngine::mlx5) { start(); }

    uint32_t name(uint16_t queue) { return device.rx_queues.tunnels[queue]; }
    /// A rule of headers without anything to match.
    static Rule of(std::initializer_list<rte_flow_item_type> items) {
        Rule rule;
        for (const rte_flow_item_type item : items)
            rule.item(item);
        return rule;
    }
    static Rule vxlan() {
        return of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_UDP,
                   RTE_FLOW_ITEM_TYPE_VXLAN});
    }
    static Rule gre() {
        return of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV6, RTE_FLOW_ITEM_TYPE_GRE});
    }
    rte_flow* made(const Rule& rule) {
        rte_flow* const flow = create(rule);
        EXPECT_NE(flow, nullptr) << error.message;
        return flow;
    }
    void gone(rte_flow* flow) { EXPECT_EQ(table.destroy(flow, &error), 0); }
};

TEST_F(TunnelsTest, AQueueOfOneKindHasItsName) {
    rte_flow* const first = made(vxlan().queue(1));
    EXPECT_EQ(name(1), kVxlan);
    EXPECT_EQ(name(0), 0u);
    rte_flow* const other = made(gre().queue(1));
    EXPECT_EQ(name(1), 0u) << "of two kinds";
    gone(first);
    EXPECT_EQ(name(1), kGre);
    made(of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_GRE,
             RTE_FLOW_ITEM_TYPE_GRE_KEY})
             .queue(2));
    EXPECT_EQ(name(2), kGre) << "the key is a part of it";
    gone(other);
    EXPECT_EQ(name(1), 0u);
}

TEST_F(TunnelsTest, EachKindHasAName) {
    const auto name_of = [this](std::initializer_list<rte_flow_item_type> tunnel) {
        Rule rule = of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4});
        for (const rte_flow_item_type item : tunnel)
            rule.item(item);
        rte_flow* const flow = made(rule.queue(3));
        const uint32_t found = name(3);
        gone(flow);
        EXPECT_EQ(name(3), 0u);
        return found;
    };
    constexpr auto kUdp = RTE_FLOW_ITEM_TYPE_UDP, kGreItem = RTE_FLOW_ITEM_TYPE_GRE;
    EXPECT_EQ(name_of({kUdp, RTE_FLOW_ITEM_TYPE_VXLAN}), kVxlan);
    EXPECT_EQ(name_of({kUdp, RTE_FLOW_ITEM_TYPE_VXLAN_GPE}), uint32_t{RTE_PTYPE_TUNNEL_VXLAN_GPE});
    EXPECT_EQ(name_of({kUdp, RTE_FLOW_ITEM_TYPE_GENEVE}), uint32_t{RTE_PTYPE_TUNNEL_GENEVE});
    EXPECT_EQ(name_of({kUdp, RTE_FLOW_ITEM_TYPE_GTP}), uint32_t{RTE_PTYPE_TUNNEL_GTPU});
    EXPECT_EQ(name_of({kUdp, RTE_FLOW_ITEM_TYPE_GTPU}), uint32_t{RTE_PTYPE_TUNNEL_GTPU});
    EXPECT_EQ(name_of({kUdp, RTE_FLOW_ITEM_TYPE_MPLS}), uint32_t{RTE_PTYPE_TUNNEL_MPLS_IN_UDP});
    EXPECT_EQ(name_of({kGreItem, RTE_FLOW_ITEM_TYPE_MPLS}), uint32_t{RTE_PTYPE_TUNNEL_MPLS_IN_GRE});
    EXPECT_EQ(name_of({kGreItem}), kGre);
    EXPECT_EQ(name_of({RTE_FLOW_ITEM_TYPE_NVGRE}), uint32_t{RTE_PTYPE_TUNNEL_NVGRE});
}

TEST_F(TunnelsTest, ARuleThatBringsAnyTunnelTakesTheNameAway) {
    made(vxlan().rss({1, 2, 1}));
    EXPECT_EQ(name(1), kVxlan);
    EXPECT_EQ(name(2), kVxlan);
    for (const Rule& rule :
         {of({RTE_FLOW_ITEM_TYPE_ETH}), of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4}),
          of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV6, RTE_FLOW_ITEM_TYPE_UDP})}) {
        rte_flow* const any = made(Rule(rule).queue(2));
        EXPECT_EQ(name(1), kVxlan);
        EXPECT_EQ(name(2), 0u);
        gone(any);
        EXPECT_EQ(name(2), kVxlan);
    }
}

TEST_F(TunnelsTest, RulesThatBringNoneLeaveIt) {
    made(vxlan().queue(1));
    made(of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_TCP}).queue(1));
    made(udp_to(53, 1));
    made(of({RTE_FLOW_ITEM_TYPE_ETH, RTE_FLOW_ITEM_TYPE_IPV6}).action(RTE_FLOW_ACTION_TYPE_DROP));
    EXPECT_EQ(name(1), kVxlan);
    made(udp_to(4789, 2)); // VXLAN's port
    EXPECT_EQ(name(2), kVxlan);
    const Rule probe = of({RTE_FLOW_ITEM_TYPE_ETH}).queue(1);
    EXPECT_EQ(validate(probe), 0) << error.message;
    EXPECT_EQ(name(1), kVxlan) << "a rule that is tried only";
    table.stop();
    EXPECT_EQ(name(1), 0u);
    start();
    EXPECT_EQ(name(1), kVxlan);
}

TEST_F(TunnelsTest, ARuleThatIsRefusedChangesNothing) {
    made(vxlan().queue(1));
    device.fail_always("create_mlx5_flow", ENOMEM);
    EXPECT_EQ(create(of({RTE_FLOW_ITEM_TYPE_ETH}).queue(1)), nullptr);
    device.fail_always("create_mlx5_flow", 0);
    EXPECT_EQ(name(1), kVxlan);
}

TEST_F(TunnelsTest, NamesFollowAnUpdate) {
    rte_flow* const rule = made(vxlan().queue(1));
    const Rule elsewhere = Rule().queue(2);
    ASSERT_EQ(table.update_actions(rule, elsewhere.actions(), &error), 0) << error.message;
    EXPECT_EQ(name(1), 0u);
    EXPECT_EQ(name(2), kVxlan);
}

} // namespace
} // namespace rawqp::test
