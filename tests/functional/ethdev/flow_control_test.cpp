// SPDX-License-Identifier: BSD-3-Clause
// Flow control: what the port reports, and what happens to packets without a buffer.
#include "tests/functional/ethdev/port.hpp"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace test {
namespace {

constexpr unsigned kBeyond = 36; ///< packets for which queue 0 has no buffer

/// The port starts with flow control on.
class FlowControl : public PortTest {
  protected:
    void TearDown() override {
        EXPECT_EQ(set(RTE_ETH_FC_FULL), 0);
        PortTest::TearDown();
    }
    [[nodiscard]] static rte_eth_fc_conf get() {
        rte_eth_fc_conf conf;
        std::memset(&conf, 0xff, sizeof conf);
        EXPECT_EQ(rte_eth_dev_flow_ctrl_get(kPort, &conf), 0);
        return conf;
    }
    [[nodiscard]] static int set(rte_eth_fc_mode mode) {
        rte_eth_fc_conf conf{};
        conf.mode = mode;
        return rte_eth_dev_flow_ctrl_set(kPort, &conf);
    }
    /// Sends kBeyond more packets than queue 0 has buffers.
    static void send_too_many() {
        rte_mempool* const pool = make_pool(kDescriptors + kBeyond);
        ASSERT_NE(pool, nullptr);
        for (unsigned i = 0; i < kDescriptors + kBeyond; ++i)
            ASSERT_TRUE(send(mbuf_of(pool, frame(static_cast<uint8_t>(i)))));
    }
    static void expect_packets(unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            rte_mbuf* const packet = receive();
            ASSERT_NE(packet, nullptr) << i;
            EXPECT_EQ(content_of(packet), frame(static_cast<uint8_t>(i)));
            rte_pktmbuf_free(packet);
        }
    }
};

TEST_F(FlowControl, IsAsThePortHasIt) {
    rte_eth_fc_conf conf = get();
    EXPECT_EQ(conf.mode, RTE_ETH_FC_FULL);
    EXPECT_EQ(conf.autoneg, 0);
    EXPECT_EQ(conf.pause_time, 0);
    EXPECT_EQ(conf.high_water, 0u);
    EXPECT_EQ(conf.low_water, 0u);
    EXPECT_EQ(conf.send_xon, 0);
    EXPECT_EQ(conf.mac_ctrl_frame_fwd, 0);
    EXPECT_EQ(rte_eth_dev_flow_ctrl_set(kPort, &conf), 0) << "as it is";
}

/// Also where the mode would change: nothing is set then.
TEST_F(FlowControl, WhatTheDeviceDecidesIsNotSet) {
    void (*const ask[])(rte_eth_fc_conf&) = {
        [](auto& conf) { conf.high_water = 1; },         [](auto& conf) { conf.low_water = 1; },
        [](auto& conf) { conf.pause_time = 1; },         [](auto& conf) { conf.send_xon = 1; },
        [](auto& conf) { conf.mac_ctrl_frame_fwd = 1; },
    };
    for (size_t i = 0; i < std::size(ask); ++i) {
        rte_eth_fc_conf conf{};
        conf.mode = RTE_ETH_FC_NONE;
        ask[i](conf);
        EXPECT_EQ(rte_eth_dev_flow_ctrl_set(kPort, &conf), -ENOTSUP) << i;
        EXPECT_EQ(get().mode, RTE_ETH_FC_FULL) << i;
    }
}

TEST_F(FlowControl, AnUnknownModeIsRefusedAndChangesNothing) {
    constexpr unsigned kUnknown = RTE_ETH_FC_FULL + 1; // which C++ knows no rte_eth_fc_mode for
    rte_eth_fc_conf conf{};
    std::memcpy(&conf.mode, &kUnknown, sizeof conf.mode);
    EXPECT_EQ(rte_eth_dev_flow_ctrl_set(kPort, &conf), -EINVAL);
    EXPECT_EQ(get().mode, RTE_ETH_FC_FULL);
}

TEST_F(FlowControl, DecidesWhatBecomesOfPacketsWithoutBuffer) {
    const uint64_t missed = stats().imissed;
    send_too_many();
    expect_packets(kDescriptors + kBeyond);
    EXPECT_EQ(stats().imissed, missed) << "they waited";

    ASSERT_EQ(set(RTE_ETH_FC_NONE), 0);
    EXPECT_EQ(get().mode, RTE_ETH_FC_NONE);
    restart(); // posts all of the queue's buffers
    send_too_many();
    EXPECT_TRUE(wait(10000, [&] { return stats().imissed == missed + kBeyond; }))
        << stats().imissed - missed;
    expect_packets(kDescriptors);

    ASSERT_EQ(set(RTE_ETH_FC_FULL), 0);
    EXPECT_EQ(get().mode, RTE_ETH_FC_FULL);
    send_too_many();
    expect_packets(kDescriptors + kBeyond);
    EXPECT_EQ(stats().imissed, missed + kBeyond);
}

/// This device has one switch for both directions.
TEST_F(FlowControl, OfOneDirectionIsRefusedAndChangesNothing) {
    for (const rte_eth_fc_mode mode : {RTE_ETH_FC_RX_PAUSE, RTE_ETH_FC_TX_PAUSE}) {
        EXPECT_LT(set(mode), 0);
        EXPECT_EQ(get().mode, RTE_ETH_FC_FULL);
    }
}

} // namespace
} // namespace test
