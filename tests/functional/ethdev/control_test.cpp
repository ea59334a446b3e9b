// SPDX-License-Identifier: BSD-3-Clause
// What concerns the port as a whole: reset, dump, totals.
#include "tests/functional/ethdev/traffic.hpp"

#include <array>
#include <cerrno>
#include <rte_cycles.h>
#include <rte_ip.h>

namespace test {
namespace {

class Control : public PortTest {
  protected:
    /// Bursts do not check whether their queue is stopped.
    static void burst_into_stopped_queue(rte_mempool* pool, uint8_t count, uint64_t flags = 0) {
        for (uint8_t i = 0; i < count; ++i) {
            rte_mbuf* packet = mbuf_of(pool, frame(i));
            ASSERT_NE(packet, nullptr);
            packet->ol_flags = flags;
            packet->l2_len = RTE_ETHER_HDR_LEN;
            packet->l3_len = sizeof(rte_ipv4_hdr);
            ASSERT_EQ(rte_eth_tx_burst(kPort, 0, &packet, 1), 1);
        }
    }
};

TEST_F(Control, AResetMakesThePortAnew) {
    const unsigned before = rte_mempool_in_use_count(rx_pool());
    ASSERT_GT(before, 0u);
    rte_ether_addr other{{2, 0, 0, 0, 0, 9}};
    ASSERT_EQ(rte_eth_dev_mac_addr_add(kPort, &other, 0), 0);
    ASSERT_EQ(rte_eth_promiscuous_enable(kPort), 0);
    expect_round_trips(rx_pool(), 10);
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(rte_eth_dev_reset(kPort), 0);
        EXPECT_EQ(rte_mempool_in_use_count(rx_pool()), 0u);
        EXPECT_EQ(rte_eth_dev_start(kPort), -EINVAL) << "it is to be configured again";
        EXPECT_EQ(stats().ipackets, 0u);
        EXPECT_EQ(rte_eth_promiscuous_get(kPort), 0);
        ASSERT_NO_FATAL_FAILURE(start(rx_pool()));
        EXPECT_EQ(rte_mempool_in_use_count(rx_pool()), before);
        expect_round_trips(rx_pool(), 10);
    }
    rte_ether_addr addresses[2];
    ASSERT_GT(rte_eth_macaddrs_get(kPort, addresses, 2), 0);
    EXPECT_TRUE(rte_is_zero_ether_addr(&addresses[1])) << "that of the first life";
}

TEST_F(Control, QueuesAddUpToThePortInFullTraffic) {
    constexpr std::array kNames{"rx_good_packets", "rx_q0_packets", "rx_q1_packets",
                                "tx_good_packets", "tx_q0_packets", "tx_q1_packets"};
    std::array<uint64_t, kNames.size()> ids{}, values{};
    for (size_t i = 0; i < kNames.size(); ++i)
        ASSERT_EQ(rte_eth_xstats_get_id_by_name(kPort, kNames[i], &ids[i]), 0) << kNames[i];
    const Traffic traffic(make_pool(512), frame(1));
    const uint64_t end = rte_get_tsc_cycles() + rte_get_tsc_hz();
    while (rte_get_tsc_cycles() < end) {
        ASSERT_EQ(rte_eth_xstats_get_by_id(kPort, ids.data(), values.data(), ids.size()),
                  static_cast<int>(ids.size()));
        ASSERT_EQ(values[0], values[1] + values[2]);
        ASSERT_EQ(values[3], values[4] + values[5]);
    }
    EXPECT_GT(values[0], 0u);
}

TEST_F(Control, AQueueThatIsNotThereHasNothingToCleanUp) {
    EXPECT_GE(rte_eth_tx_done_cleanup(kPort, kQueues - 1, 0), 0);
    EXPECT_EQ(rte_eth_tx_done_cleanup(kPort, kQueues, 0), -EINVAL); // ethdev does not check
}

TEST_F(Control, WhatAStoppedTxQueueWasHandedIsNotSentWhenItStarts) {
    rte_mempool* const pool = make_pool(64);
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(kPort, 0), 0);
    ASSERT_NO_FATAL_FAILURE(burst_into_stopped_queue(pool, 8));
    ASSERT_EQ(rte_eth_dev_tx_queue_start(kPort, 0), 0);
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
    EXPECT_EQ(receive(0, 100), nullptr);
    expect_round_trips(pool, 10);
    EXPECT_EQ(stats().opackets, 10u);
    EXPECT_EQ(stats().oerrors, 8u);
    restart();
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
}

TEST_F(Control, WhatAStoppedTxQueueWasHandedIsGivenBackWithThePort) {
    rte_mempool* const pool = make_pool(64);
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(kPort, 0), 0);
    ASSERT_NO_FATAL_FAILURE(burst_into_stopped_queue(pool, 8));
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
    EXPECT_EQ(stats().opackets, 0u);
    EXPECT_EQ(stats().oerrors, 8u);
    ASSERT_EQ(rte_eth_dev_start(kPort), 0);
}

TEST_F(Control, ATxQueueWithDeferredStartMayBeAskedForChecksums) {
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    rte_eth_conf conf{};
    conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    ASSERT_EQ(rte_eth_dev_configure(kPort, 0, 1, &conf), 0);
    rte_eth_txconf late{};
    late.tx_deferred_start = 1;
    ASSERT_EQ(rte_eth_tx_queue_setup(kPort, 0, kDescriptors, SOCKET_ID_ANY, &late), 0);
    ASSERT_EQ(rte_eth_dev_start(kPort), 0);
    ASSERT_EQ(rte_eth_stats_reset(kPort), 0);
    rte_mempool* const pool = make_pool(64);
    constexpr uint64_t kFlags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
    ASSERT_NO_FATAL_FAILURE(burst_into_stopped_queue(pool, 8, kFlags));
    ASSERT_EQ(rte_eth_dev_tx_queue_start(kPort, 0), 0);
    EXPECT_EQ(rte_mempool_in_use_count(pool), 0u);
    EXPECT_EQ(stats().oerrors, 8u);
}

TEST_F(Control, TheLinkIsAsTheInterfaceHasIt) {
    rte_eth_link link{};
    ASSERT_EQ(rte_eth_link_get(kPort, &link), 0);
    EXPECT_EQ(link.link_status, RTE_ETH_LINK_UP);
    EXPECT_EQ(link.link_duplex, RTE_ETH_LINK_FULL_DUPLEX);
    EXPECT_EQ(link.link_autoneg, RTE_ETH_LINK_AUTONEG);
}

TEST_F(Control, ADumpShowsQueuesAndDevice) {
    expect_round_trips(rx_pool(), 10);
    const std::string running = dump();
    for (const char* part : {"port 0 net_rawqp0", "mlx5_", " port 1, firmware ", ", running",
                             "rxq 0     running, 64 descriptors", "txq 1     running",
                             "; 10 packets, 645 bytes, 0 errors"})
        EXPECT_NE(running.find(part), std::string::npos) << part << " is not in\n" << running;
    ASSERT_EQ(rte_eth_stats_reset(kPort), 0);
    EXPECT_EQ(dump().find("; 10 packets"), std::string::npos) << "what statistics tell\n" << dump();
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    EXPECT_NE(dump().find("rxq 0     stopped"), std::string::npos) << dump();
    ASSERT_EQ(rte_eth_dev_start(kPort), 0);
}

TEST_F(Control, DescriptorsAreDumped) {
    const auto rx = [](uint16_t offset, uint16_t count) {
        return written(
            [=](FILE* file) { return rte_eth_rx_descriptor_dump(kPort, 0, offset, count, file); });
    };
    const std::string first = rx(0, 2);
    EXPECT_EQ(first.find("descriptor 0: posted, "), 0u) << first;
    EXPECT_NE(first.find("\ndescriptor 1: posted, "), std::string::npos) << first;
    EXPECT_EQ(first.find("descriptor 2"), std::string::npos) << first;
    EXPECT_EQ(rx(kDescriptors - 1, 1).find("descriptor 63: "), 0u);
    EXPECT_EQ(rx(kDescriptors, 0), "");
    EXPECT_EQ(written([](FILE* file) { return rte_eth_tx_descriptor_dump(kPort, 1, 0, 2, file); }),
              "descriptor 0: free\ndescriptor 1: free\n");
    EXPECT_EQ(rte_eth_rx_descriptor_dump(kPort, 0, kDescriptors - 1, 2, stderr), -EINVAL);
    EXPECT_EQ(rte_eth_tx_descriptor_dump(kPort, kQueues, 0, 1, stderr), -EINVAL);
}

} // namespace
} // namespace test
