// SPDX-License-Identifier: BSD-3-Clause
// rte_eth_dev_reset: the port starts anew, or is lost and can only be closed.
#include "tests/unit/ethdev/port_fixture.hpp"
#include "tests/unit/rings/logged.hpp"

#include <algorithm>

namespace rawqp::test {
namespace {

TEST_F(PortTest, AResetBeginsAnew) {
    rx_offloads = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
    ASSERT_TRUE(attach());
    const std::string fresh = rdma.alive();
    const rte_ether_addr* const addresses = dev->data->mac_addrs;
    const rte_ether_addr random = addresses[0]; // as there is no interface
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    const int flows = rdma.alive("flow");
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rte_ether_addr second{{2, 0, 0, 0, 0, 7}};
    ASSERT_EQ(rte_eth_dev_mac_addr_add(id(), &second, 0), 0);
    rte_ether_addr other{{2, 0, 0, 0, 0, 8}};
    ASSERT_EQ(rte_eth_dev_default_mac_addr_set(id(), &other), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    ASSERT_EQ(rte_eth_promiscuous_enable(id()), 0);
    ASSERT_EQ(rte_eth_allmulticast_enable(id()), 0);
    for (const uint16_t vlan : {uint16_t{5}, uint16_t{6}})
        ASSERT_EQ(rte_eth_dev_vlan_filter(id(), vlan, 1), 0);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 1400), 0);

    ASSERT_EQ(rte_eth_dev_reset(id()), 0);
    EXPECT_EQ(rdma.alive(), fresh) << "as after attaching";
    EXPECT_EQ(mbufs_in_use(), 0u);
    EXPECT_EQ(rte_eth_dev_start(id()), -EINVAL) << "not configured";
    EXPECT_EQ(rte_eth_rx_queue_setup(id(), 0, kDescriptors, 0, nullptr, pool.get()), -EINVAL);
    EXPECT_EQ(rte_eth_tx_queue_setup(id(), 0, kDescriptors, 0, nullptr), -EINVAL);
    rte_eth_burst_mode mode{};
    EXPECT_EQ(rte_eth_rx_burst_mode_get(id(), 0, &mode), -EINVAL);
    EXPECT_EQ(rte_eth_tx_burst_mode_get(id(), 0, &mode), -EINVAL);
    EXPECT_EQ(rte_eth_promiscuous_get(id()), 0);
    EXPECT_EQ(rte_eth_allmulticast_get(id()), 0);
    EXPECT_EQ(dev->data->mtu, RTE_ETHER_MTU);
    rte_ether_addr now{};
    ASSERT_EQ(rte_eth_macaddr_get(id(), &now), 0);
    EXPECT_TRUE(rte_is_same_ether_addr(&now, &random)) << "its own";
    EXPECT_TRUE(rte_is_zero_ether_addr(&dev->data->mac_addrs[1]));
    EXPECT_EQ(dev->data->mac_addrs, addresses) << "which telemetry may be reading";

    ASSERT_EQ(configure(kQueues, kQueues), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(rdma.alive("flow"), flows) << "for its address, and any VLAN";
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(configure(1, 1), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(rdma.alive("WQ"), 1);
    ASSERT_EQ(rte_eth_dev_reset(id()), 0) << "of a port that runs";
}

TEST_F(PortTest, AResetForgetsFlowQueues) {
    ASSERT_TRUE(attach());
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    const rte_flow_port_attr port{};
    rte_flow_queue_attr queue{};
    queue.size = 8;
    const rte_flow_queue_attr* queues[] = {&queue};
    rte_flow_error error{};
    ASSERT_EQ(rte_flow_configure(id(), &port, 1, queues, &error), 0) << error.message;
    ASSERT_EQ(rte_eth_dev_reset(id()), 0);
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    rte_flow_pattern_template_attr ingress{};
    ingress.ingress = 1;
    const rte_flow_item nothing{};
    EXPECT_EQ(rte_flow_pattern_template_create(id(), &ingress, &nothing, &error), nullptr);
    EXPECT_EQ(rte_errno, EINVAL) << "flow queues come first";
}

/// On a removed device, calls fail with EIO until a reset has found another one.
TEST_F(PortTest, AResetBringsBackAPortWhoseDeviceWasRemoved) {
    bring_up();
    EXPECT_EQ(rte_eth_dev_is_removed(id()), 0);
    ibv_async_event fatal{};
    fatal.event_type = IBV_EVENT_DEVICE_FATAL;
    rdma.raise(fatal);
    for (int i = 0; i < 2000 && rte_eth_dev_is_removed(id()) == 0; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(rte_eth_dev_is_removed(id()), 1);
    rdma.fail_always("create_flow", EPERM);
    EXPECT_EQ(rte_eth_promiscuous_disable(id()), 0);
    EXPECT_EQ(rte_eth_promiscuous_enable(id()), -EIO);
    rdma.fail_always("create_flow", 0);

    ASSERT_EQ(rte_eth_dev_reset(id()), 0);
    EXPECT_EQ(rte_eth_dev_is_removed(id()), 0);
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    rdma.fail_always("create_flow", EPERM);
    EXPECT_EQ(rte_eth_promiscuous_enable(id()), -EPERM);
    rdma.fail_always("create_flow", 0);
}

/// Each call of the reset fails in turn. What is left can only be inspected and closed.
TEST_F(PortTest, AResetThatFailsLeavesAPortToClose) {
    for (int nth = 1;; ++nth) {
        ASSERT_LT(nth, 200) << "no reset succeeds";
        bring_up();
        ASSERT_EQ(rte_eth_dev_stop(id()), 0);
        const eth_dev_ops& ops = *dev->dev_ops; // telemetry may have fetched one before the reset
        testing::internal::CaptureStderr();
        rdma.fail_call(nth, EIO);
        const int result = rte_eth_dev_reset(id());
        const std::string failed = rdma.failed();
        rdma.fail_call(0, 0);
        const std::string log = testing::internal::GetCapturedStderr();
        SCOPED_TRACE(fmt::format("call {} ({}) fails: {}", nth, failed, log));
        if (result != 0) {
            EXPECT_EQ(rdma.alive(), "");
            EXPECT_EQ(mbufs_in_use(), 0u);
            EXPECT_THAT(log, testing::HasSubstr("cannot be reset, close it: "));
            rte_eth_dev_info info{};
            EXPECT_EQ(rte_eth_dev_info_get(id(), &info), 0);
            EXPECT_EQ(info.device, &device);
            rte_ether_addr address{};
            EXPECT_EQ(rte_eth_macaddr_get(id(), &address), 0);
            rte_eth_stats stats{};
            EXPECT_EQ(rte_eth_stats_get(id(), &stats), -ENOTSUP);
            EXPECT_EQ(ops.xstats_get(dev, nullptr, 0), -EBUSY);
            EXPECT_EQ(ops.link_update(dev, 0), -EBUSY);
            EXPECT_LT(configure(1, 1), 0);
            EXPECT_EQ(rte_eth_dev_reset(id()), -ENOTSUP);
        }
        close();
        EXPECT_EQ(rdma.alive(), "");
        if (failed.empty()) break;
    }
}

/// Bursts try again every millisecond: not every failure is worth a line.
TEST_F(PortTest, RecoveriesThatFailAreLoggedNowAndThen) {
    bring_up();
    Port& port = Port::of(dev);
    rdma.fail_always("modify_wq", EIO);
    const auto lines = [&] {
        const std::string text = rings_test::logged([&] {
            for (int i = 0; i < 20; ++i)
                EXPECT_EQ(port.reset(*port.rx_queues[0]->ring), -EIO);
        });
        return std::ranges::count(text, '\n');
    };
    EXPECT_EQ(lines(), 5) << "1, 2, 4, 8, 16";
    rdma.fail_always("modify_wq", 0);
    EXPECT_EQ(port.reset(*port.rx_queues[0]->ring), 0);
    rdma.fail_always("modify_wq", EIO);
    EXPECT_EQ(lines(), 5) << "another row of failures";
    port.shared.lost = true;
    EXPECT_EQ(lines(), 0) << "the device is gone, which is known";
    rdma.fail_always("modify_wq", 0);
    port.shared.lost = false;
}

} // namespace
} // namespace rawqp::test
