// SPDX-License-Identifier: BSD-3-Clause
// LRO in a port's configuration: the room of its queues, and what is refused before any packet
// arrives. (The device of these tests has no LRO; the port is told that it has.)
#include "tests/unit/ethdev/port_fixture.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;

constexpr uint32_t kSize = 8000;

class PortLroTest : public PortTest {
  protected:
    void SetUp() override {
        const Result<void> done = attach();
        ASSERT_TRUE(done) << done.error().what;
        Port::of(dev).lro = LroCap{.periods = {8, 16, 32, 1024}};
    }
    int configure_with(uint64_t offloads, uint16_t queues = kQueues) {
        rte_eth_conf conf{};
        conf.rxmode.offloads = offloads;
        conf.rxmode.max_lro_pkt_size = kSize;
        return rte_eth_dev_configure(id(), queues, 0, &conf);
    }
    int set_up(uint16_t queue) {
        return rte_eth_rx_queue_setup(id(), queue, kDescriptors, 0, nullptr, pool.get());
    }
    /// The log of a start that fails.
    std::string refusal(int error) {
        testing::internal::CaptureStderr();
        EXPECT_EQ(rte_eth_dev_start(id()), error);
        return testing::internal::GetCapturedStderr();
    }
    [[nodiscard]] const RxSpec& spec(uint16_t queue) const {
        return Port::of(dev).rx_queues[queue]->spec;
    }
};

constexpr uint64_t kLro = RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_SCATTER;

TEST_F(PortLroTest, IsOffered) {
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(id(), &info), 0);
    EXPECT_NE(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TCP_LRO, 0u);
    EXPECT_EQ(info.max_lro_pkt_size, 65280u);
    Port::of(dev).lro = std::nullopt;
    ASSERT_EQ(rte_eth_dev_info_get(id(), &info), 0);
    EXPECT_EQ(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TCP_LRO, 0u);
    EXPECT_EQ(info.max_lro_pkt_size, 0u);
}

TEST_F(PortLroTest, QueuesHaveRoomForWhatItMakes) {
    ASSERT_EQ(configure_with(kLro), 0);
    ASSERT_EQ(set_up(0), 0);
    EXPECT_EQ(spec(0).max_frame, kSize);
    EXPECT_EQ(spec(0).segments, 4); // of 2176 bytes each
    ASSERT_EQ(configure_with(RTE_ETH_RX_OFFLOAD_TCP_LRO), 0);
    EXPECT_EQ(set_up(0), -EINVAL) << "one mbuf is too small";
    ASSERT_EQ(configure_with(RTE_ETH_RX_OFFLOAD_SCATTER), 0);
    ASSERT_EQ(set_up(0), 0);
    EXPECT_EQ(spec(0).segments, 1);
}

TEST_F(PortLroTest, WhatDoesNotGoWithItIsRefused) {
    Port::of(dev).attributes.raw_packet_caps |= IBV_RAW_PACKET_CAP_SCATTER_FCS;
    EXPECT_EQ(configure_with(RTE_ETH_RX_OFFLOAD_KEEP_CRC), 0);
    EXPECT_EQ(configure_with(kLro | RTE_ETH_RX_OFFLOAD_KEEP_CRC), -ENOTSUP);
}

TEST_F(PortLroTest, QueuesOfAnotherConfigurationDoNotStart) {
    ASSERT_EQ(configure_with(RTE_ETH_RX_OFFLOAD_SCATTER), 0);
    ASSERT_EQ(set_up(0), 0);
    ASSERT_EQ(set_up(1), 0);
    ASSERT_EQ(configure_with(kLro), 0);
    ASSERT_EQ(set_up(0), 0);
    EXPECT_THAT(refusal(-EINVAL), HasSubstr("Rx queue 1 was set up without LRO"));
    ASSERT_EQ(set_up(1), 0);
    ASSERT_EQ(configure_with(RTE_ETH_RX_OFFLOAD_SCATTER), 0);
    EXPECT_THAT(refusal(-EINVAL), HasSubstr("Rx queue 0 was set up with LRO"));
    ASSERT_EQ(set_up(0), 0);
    ASSERT_EQ(set_up(1), 0);
    EXPECT_EQ(rte_eth_dev_start(id()), 0);
}

/// Without mlx5dv flows there is no rule, and the port says why.
TEST_F(PortLroTest, WithoutWordsForItThePortDoesNotStart) {
    ASSERT_EQ(configure_with(kLro), 0);
    ASSERT_EQ(set_up(0), 0);
    ASSERT_EQ(set_up(1), 0);
    EXPECT_THAT(refusal(-ENOTSUP), HasSubstr("LRO: verbs flows lead to hash QPs"));
}

} // namespace
} // namespace rawqp::test
