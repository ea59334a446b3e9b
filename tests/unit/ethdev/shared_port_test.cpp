// SPDX-License-Identifier: BSD-3-Clause
// What processes share of a port: the states of its queues, and rings without pointers.
#include "drivers/net/rawqp/ethdev/queues/queue.hpp"
#include "drivers/net/rawqp/ethdev/shared_port.hpp"
#include "tests/unit/ethdev/port_fixture.hpp"

#include <set>

namespace rawqp::test {
namespace {

using enum QueueState;

/// As in the table in shared_port.hpp.
TEST(QueueStateTest, AllowsTheseTransitionsOnly) {
    const std::set<std::pair<QueueState, QueueState>> allowed{
        {absent, set_up},   {set_up, absent},    {set_up, set_up},   {set_up, running},
        {set_up, released}, {running, stopping}, {stopping, set_up}, {released, absent},
        {released, set_up}, {released, released}};
    for (const QueueState from : {absent, set_up, running, stopping, released})
        for (const QueueState to : {absent, set_up, running, stopping, released})
            EXPECT_EQ(may_become(from, to), allowed.contains({from, to}))
                << static_cast<int>(from) << " to " << static_cast<int>(to);
}

/// From these, other processes choose the same bursts as the primary.
TEST(SharedBurstsTest, TellAllThatDecides) {
    RxSpec rx;
    rx.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    rx.segments = 4;
    rx.real_time = true;
    TxSpec tx;
    tx.offloads = RTE_ETH_TX_OFFLOAD_TCP_TSO;
    tx.inline_bytes = 204;
    tx.multi_packet = !tx.multi_packet;
    tx.metadata = true;
    tx.min_inline = InlineMode::tcp;
    SharedBursts bursts{};
    bursts.note(rx);
    bursts.note(tx);
    EXPECT_EQ(bursts.rx_spec().offloads, rx.offloads);
    EXPECT_EQ(bursts.rx_spec().segments, rx.segments);
    EXPECT_TRUE(bursts.rx_spec().real_time);
    EXPECT_EQ(bursts.tx_spec().offloads, tx.offloads);
    EXPECT_EQ(bursts.tx_spec().inline_bytes, tx.inline_bytes);
    EXPECT_EQ(bursts.tx_spec().multi_packet, tx.multi_packet);
    EXPECT_TRUE(bursts.tx_spec().metadata);
    EXPECT_EQ(bursts.tx_spec().min_inline, tx.min_inline);
}

class SharedPortTest : public PortTest {
  protected:
    [[nodiscard]] const SharedPort& shared() const { return SharedPort::of(dev); }
    [[nodiscard]] std::vector<QueueState> states() const {
        return {shared().rx[0].state, shared().rx[1].state, shared().tx[0].state,
                shared().tx[1].state};
    }
};

TEST_F(SharedPortTest, FollowsTheLifeOfQueues) {
    ASSERT_TRUE(attach());
    EXPECT_EQ(states(), (std::vector{absent, absent, absent, absent}));
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    EXPECT_EQ(states(), (std::vector{set_up, set_up, set_up, set_up}));
    EXPECT_FALSE(shared().is_running());
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(states(), (std::vector{running, running, running, running}));
    EXPECT_TRUE(shared().is_running());
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(id(), 0), 0);
    EXPECT_EQ(states(), (std::vector{running, set_up, set_up, running}));
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    EXPECT_EQ(states(), (std::vector{set_up, set_up, set_up, set_up}));
    EXPECT_FALSE(shared().is_running());
    ASSERT_EQ(configure(1, 1), 0);
    EXPECT_EQ(states(), (std::vector{set_up, absent, set_up, absent}));
}

/// Also if it was released before, as it could not be set up while the port ran.
TEST_F(SharedPortTest, AQueueThatIsNotConfiguredIsAbsent) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    rdma.fail_next("create_wq", ENOMEM);
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), -ENOMEM);
    EXPECT_EQ(states(), (std::vector{running, released, running, running}));
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(configure(1, kQueues), 0);
    EXPECT_EQ(states(), (std::vector{set_up, absent, set_up, set_up}));
}

TEST_F(SharedPortTest, SaysWhyRingsAreNotForOthers) {
    ASSERT_TRUE(attach());
    EXPECT_STREQ(shared().not_shareable.data(),
                 "the rings of datapath=verbs belong to verbs objects of the primary process");
    EXPECT_STREQ(shared().device.data(), "fake_0");
}

} // namespace
} // namespace rawqp::test
