// SPDX-License-Identifier: BSD-3-Clause
// The times at which PTP messages are sent and received: rte_eth_timesync_*.
#include "tests/functional/ethdev/port.hpp"

#include <cerrno>
#include <rte_time.h>

namespace test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class Timesync : public PortTest {
  protected:
    void SetUp() override {
        ASSERT_NO_FATAL_FAILURE(start(rx_pool(), RTE_ETH_RX_OFFLOAD_TIMESTAMP));
        const int enabled = rte_eth_timesync_enable(kPort);
        there = enabled == 0;
        if (!there) {
            ASSERT_EQ(enabled, -ENOTSUP);
        }
    }
    void TearDown() override {
        EXPECT_EQ(rte_eth_timesync_disable(kPort), 0);
        PortTest::TearDown();
    }
    static rte_mbuf* sync_message(rte_mempool* pool) {
        Frame message = frame(1, 64, RTE_ETHER_TYPE_1588);
        message[14] = 0; // Sync
        message[15] = 2;
        rte_mbuf* const packet = mbuf_of(pool, message);
        packet->ol_flags |= RTE_MBUF_F_TX_IEEE1588_TMST;
        return packet;
    }
    static uint64_t now() {
        timespec time{};
        EXPECT_EQ(rte_eth_timesync_read_time(kPort, &time), 0);
        return rte_timespec_to_ns(&time);
    }
    static uint64_t sent() {
        timespec time{};
        EXPECT_TRUE(wait(10000, [&] { // the completion may follow the message's return
            return rte_eth_timesync_read_tx_timestamp(kPort, &time) == 0;
        }));
        return rte_timespec_to_ns(&time);
    }
    static uint64_t received(const rte_mbuf* packet) {
        timespec time{};
        EXPECT_EQ(rte_eth_timesync_read_rx_timestamp(kPort, &time, packet->timesync), 0);
        return rte_timespec_to_ns(&time);
    }
    /// A message goes out and comes back, at times in the right order by the port's clock.
    static void expect_stamps(rte_mempool* pool) {
        constexpr uint64_t kBoth = RTE_MBUF_F_RX_IEEE1588_PTP | RTE_MBUF_F_RX_IEEE1588_TMST;
        // A device in software reads its clock only once in a while.
        constexpr uint64_t kSlack = kSecond / 10;
        const uint64_t before = now();
        rte_mbuf* packet = sync_message(pool);
        ASSERT_EQ(rte_eth_tx_prepare(kPort, 0, &packet, 1), 1u);
        ASSERT_TRUE(send(packet));
        rte_mbuf* const back = receive();
        ASSERT_NE(back, nullptr);
        EXPECT_EQ(back->ol_flags & kBoth, kBoth);
        const uint64_t went = sent(), came = received(back);
        rte_pktmbuf_free(back);
        const uint64_t after = now();
        EXPECT_LE(before, went + kSlack);
        EXPECT_LE(went, came + kSlack);
        EXPECT_LE(came, after + kSlack);
        EXPECT_LE(after - before, 10 * kSecond);
        timespec none;
        EXPECT_EQ(rte_eth_timesync_read_tx_timestamp(kPort, &none), -EINVAL) << "it was read";
    }

    bool there = false; ///< else it is refused: with datapath=verbs
};

TEST_F(Timesync, MessagesAreStampedBothWays) {
    if (!there) return;
    rte_mempool* const pool = make_pool(256);
    for (int i = 0; i < 40; ++i) // more than a queue keeps
        ASSERT_NO_FATAL_FAILURE(expect_stamps(pool));
    expect_round_trips(pool, 20);
    timespec time;
    EXPECT_EQ(rte_eth_timesync_read_rx_timestamp(kPort, &time, UINT16_MAX), -EINVAL);
    EXPECT_EQ(rte_eth_timesync_read_rx_timestamp(kPort, &time, 1 << 4), -EINVAL) << "of queue 1";
    restart();
    ASSERT_NO_FATAL_FAILURE(expect_stamps(pool));
}

TEST_F(Timesync, TheClockIsAdjusted) {
    if (!there) return;
    rte_mempool* const pool = make_pool(256);
    const timespec set{.tv_sec = 1000, .tv_nsec = 5};
    ASSERT_EQ(rte_eth_timesync_write_time(kPort, &set), 0);
    EXPECT_GE(now(), 1000 * kSecond);
    EXPECT_LT(now(), 1060 * kSecond);
    ASSERT_NO_FATAL_FAILURE(expect_stamps(pool));
    ASSERT_EQ(rte_eth_timesync_adjust_time(kPort, -500 * static_cast<int64_t>(kSecond)), 0);
    EXPECT_GE(now(), 500 * kSecond);
    EXPECT_LT(now(), 560 * kSecond);
    ASSERT_NO_FATAL_FAILURE(expect_stamps(pool));
}

TEST_F(Timesync, NothingIsStampedWhenItIsOff) {
    if (!there) return;
    rte_mempool* const pool = make_pool(64);
    ASSERT_EQ(rte_eth_timesync_disable(kPort), 0);
    timespec time{};
    EXPECT_EQ(rte_eth_timesync_read_time(kPort, &time), -EINVAL);
    EXPECT_EQ(rte_eth_timesync_adjust_time(kPort, 1), -EINVAL);
    rte_mbuf* packet = sync_message(pool);
    EXPECT_EQ(rte_eth_tx_prepare(kPort, 0, &packet, 1), 0u);
    ASSERT_TRUE(send(packet));
    rte_mbuf* const back = receive();
    ASSERT_NE(back, nullptr);
    EXPECT_EQ(back->ol_flags & (RTE_MBUF_F_RX_IEEE1588_PTP | RTE_MBUF_F_RX_IEEE1588_TMST), 0u);
    rte_pktmbuf_free(back);
    EXPECT_EQ(rte_eth_timesync_read_tx_timestamp(kPort, &time), -EINVAL);
    ASSERT_EQ(rte_eth_timesync_enable(kPort), 0);
    ASSERT_NO_FATAL_FAILURE(expect_stamps(pool));
}

TEST_F(Timesync, QueuesWithoutStampsAreRefused) {
    EXPECT_EQ(rte_eth_timesync_disable(kPort), 0);
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    ASSERT_NO_FATAL_FAILURE(start(rx_pool()));
    EXPECT_EQ(rte_eth_timesync_enable(kPort), there ? -EINVAL : -ENOTSUP);
    expect_round_trips(rx_pool(), 5);
}

/// Also if they are set up later: they would refer to stamps that nobody wrote.
TEST_F(Timesync, QueuesWithoutStampsAreRefusedWhileItIsOn) {
    if (!there) return;
    rte_mempool* const pool = make_pool(256);
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    const rte_eth_conf conf{};
    ASSERT_EQ(rte_eth_dev_configure(kPort, kQueues, kQueues, &conf), 0);
    const auto set_up = [] {
        return rte_eth_rx_queue_setup(kPort, 0, kDescriptors, SOCKET_ID_ANY, nullptr, rx_pool());
    };
    EXPECT_EQ(set_up(), -EINVAL);
    ASSERT_EQ(rte_eth_timesync_disable(kPort), 0);
    EXPECT_EQ(set_up(), 0);
    ASSERT_NO_FATAL_FAILURE(start(rx_pool(), RTE_ETH_RX_OFFLOAD_TIMESTAMP));
    ASSERT_EQ(rte_eth_timesync_enable(kPort), 0);
    expect_stamps(pool);
}

} // namespace
} // namespace test
