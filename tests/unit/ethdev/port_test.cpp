// SPDX-License-Identifier: BSD-3-Clause
// Ports on a fake device, driven through ethdev's public functions.
#include "drivers/net/rawqp/ethdev/netdev/link.hpp"
#include "tests/unit/ethdev/port_fixture.hpp"
#include "tests/unit/written.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace rawqp::test {
namespace {

TEST_F(PortTest, LifeTwiceOver) {
    for (int life = 0; life < 2; ++life) {
        bring_up();
        EXPECT_EQ(mbufs_in_use(), kQueues * kDescriptors);
        ASSERT_EQ(rte_eth_dev_stop(id()), 0);
        EXPECT_EQ(mbufs_in_use(), 0u);
        EXPECT_EQ(rdma.alive("flow"), 0);
        ASSERT_EQ(rte_eth_dev_start(id()), 0);
        EXPECT_GT(rdma.alive("flow"), 0);
        close();
        EXPECT_EQ(rdma.alive(), "");
    }
}

TEST_F(PortTest, OtherNumbersOfQueues) {
    bring_up();
    for (const auto& [rx, tx] : {std::pair<uint16_t, uint16_t>{4, 1}, {1, 3}, {2, 2}}) {
        ASSERT_EQ(rte_eth_dev_stop(id()), 0);
        ASSERT_EQ(configure(rx, tx), 0);
        ASSERT_EQ(rte_eth_dev_start(id()), 0);
        EXPECT_EQ(rdma.alive("WQ"), rx);
        EXPECT_EQ(rdma.alive("CQ"), rx + tx);
        rte_eth_rss_reta_entry64 reta[2]{};
        reta[0].mask = UINT64_MAX;
        ASSERT_EQ(rte_eth_dev_rss_reta_query(id(), reta, 128), 0);
        EXPECT_EQ(reta[0].reta[rx], 0); // spread again
        EXPECT_EQ(reta[0].reta[rx - 1], rx - 1);
    }
}

TEST_F(PortTest, ADumpTellsOfEachQueue) {
    for (const auto& [rx, tx] : {std::pair<uint16_t, uint16_t>{1, 3}, {3, 1}}) {
        ASSERT_TRUE(attach());
        ASSERT_EQ(configure(rx, tx), 0);
        const std::string text = test_text::written(
            [&](FILE* file) { EXPECT_EQ(rte_eth_dev_priv_dump(id(), file), 0); });
        const auto tells_of = [&](const char* kind, uint16_t queue) {
            return text.find(fmt::format("\n  {} {} ", kind, queue)) != std::string::npos;
        };
        for (uint16_t queue = 0; queue < 3; ++queue) {
            EXPECT_EQ(tells_of("rxq", queue), queue < rx) << text;
            EXPECT_EQ(tells_of("txq", queue), queue < tx) << text;
        }
        close();
    }
}

TEST_F(PortTest, APacketReachesTheQpOfItsQueue) {
    bring_up();
    rte_mbuf* mbuf = rte_pktmbuf_alloc(pool.get());
    rte_pktmbuf_append(mbuf, 200);
    const uintptr_t address = rte_pktmbuf_mtod(mbuf, uintptr_t);
    ASSERT_EQ(rte_eth_tx_burst(id(), 1, &mbuf, 1), 1u);
    std::vector<const verbs_test::Qp*> used;
    for (const auto& qp : rdma.qps)
        if (!qp->posted.empty()) used.push_back(qp.get());
    ASSERT_THAT(used, testing::SizeIs(1));
    ASSERT_THAT(used[0]->posted, testing::SizeIs(1));
    EXPECT_EQ(used[0]->handle.qp_base.state, IBV_QPS_RTS);
    const auto& sges = used[0]->posted[0].sges;
    ASSERT_THAT(sges, testing::SizeIs(1));
    EXPECT_EQ(sges[0].addr, address);
    EXPECT_EQ(sges[0].length, 200u);
    EXPECT_GE(sges[0].lkey, 1u << 8); // from reg_mr
}

TEST_F(PortTest, QueueNotSetUp) {
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    rte_eth_conf conf{};
    ASSERT_EQ(rte_eth_dev_configure(id(), 1, 1, &conf), 0);
    EXPECT_EQ(rte_eth_dev_start(id()), -EINVAL);
    // ethdev calls these whether or not the queue exists.
    rte_eth_burst_mode mode{};
    EXPECT_EQ(rte_eth_rx_burst_mode_get(id(), 0, &mode), -EINVAL);
    EXPECT_EQ(rte_eth_tx_burst_mode_get(id(), 0, &mode), -EINVAL);
    rte_power_monitor_cond condition{};
    EXPECT_EQ(rte_eth_get_monitor_addr(id(), 0, &condition), -EINVAL);
    EXPECT_EQ(rte_eth_set_queue_rate_limit(id(), 0, 10), -ENOTSUP);
}

/// All queues of a port have one burst function, that of the most demanding queue.
TEST_F(PortTest, BurstModeIsThePorts) {
    rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
    const test_eal::Pool small = test_eal::make_pool(255, 1024 + RTE_PKTMBUF_HEADROOM);
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    ASSERT_EQ(configure(2, 1), 0);
    rte_eth_burst_mode mode{};
    ASSERT_EQ(rte_eth_rx_burst_mode_get(id(), 0, &mode), 0);
    EXPECT_STREQ(mode.info, "verbs");
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, small.get()), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    for (const uint16_t queue : {uint16_t{0}, uint16_t{1}}) {
        ASSERT_EQ(rte_eth_rx_burst_mode_get(id(), queue, &mode), 0);
        EXPECT_STREQ(mode.info, "verbs, scattered") << queue;
    }
    close();
}

/// Tags that are stripped on demand do not change the function that the port was started with.
TEST_F(PortTest, BurstModeIsThatOfTheStart) {
    bring_up();
    rte_eth_burst_mode before{}, mode{};
    ASSERT_EQ(rte_eth_rx_burst_mode_get(id(), 0, &before), 0);
    ASSERT_EQ(rte_eth_dev_set_vlan_strip_on_queue(id(), 0, 1), 0);
    ASSERT_EQ(rte_eth_rx_burst_mode_get(id(), 0, &mode), 0);
    EXPECT_STREQ(mode.info, before.info);
}

TEST_F(PortTest, InfoTellsTheDevicesLimits) {
    bring_up();
    rte_eth_dev_info info{};
    ASSERT_EQ(rte_eth_dev_info_get(id(), &info), 0);
    EXPECT_EQ(info.max_rx_queues, 500); // two CQs per pair of queues
    EXPECT_EQ(info.reta_size, 128);
    EXPECT_EQ(info.rx_desc_lim.nb_max, 4096);
    EXPECT_EQ(info.tx_desc_lim.nb_seg_max, 8);
    EXPECT_EQ(info.speed_capa, RTE_ETH_LINK_SPEED_100G);
    char firmware[16];
    EXPECT_EQ(rte_eth_dev_fw_version_get(id(), firmware, sizeof(firmware)), 0);
    EXPECT_STREQ(firmware, "1.2.3");
    EXPECT_EQ(rte_eth_dev_fw_version_get(id(), firmware, 6), 0);
    EXPECT_EQ(rte_eth_dev_fw_version_get(id(), firmware, 5), 6);
}

TEST_F(PortTest, AddressesAndModesWhileRunning) {
    bring_up();
    rte_ether_addr mac{{2, 0, 0, 0, 0, 7}};
    const int flows = rdma.alive("flow");
    ASSERT_EQ(rte_eth_dev_mac_addr_add(id(), &mac, 0), 0);
    EXPECT_GT(rdma.alive("flow"), flows);
    ASSERT_EQ(rte_eth_dev_mac_addr_remove(id(), &mac), 0);
    EXPECT_EQ(rdma.alive("flow"), flows);
    ASSERT_EQ(rte_eth_dev_default_mac_addr_set(id(), &mac), 0);
    EXPECT_EQ(rdma.alive("flow"), flows) << "in place of the former one";

    rte_ether_addr groups[]{{{1, 0, 0x5e, 0, 0, 1}}, {{1, 0, 0x5e, 0, 0, 2}}};
    ASSERT_EQ(rte_eth_dev_set_mc_addr_list(id(), groups, 2), 0);
    EXPECT_GT(rdma.alive("flow"), flows);
    EXPECT_EQ(rte_eth_dev_set_mc_addr_list(id(), &mac, 1), -EINVAL); // not a multicast address
    ASSERT_EQ(rte_eth_dev_set_mc_addr_list(id(), nullptr, 0), 0);
    EXPECT_EQ(rdma.alive("flow"), flows);

    ASSERT_EQ(rte_eth_promiscuous_enable(id()), 0);
    ASSERT_EQ(rte_eth_promiscuous_disable(id()), 0);
    ASSERT_EQ(rte_eth_allmulticast_enable(id()), 0);
    ASSERT_EQ(rte_eth_allmulticast_disable(id()), 0);
    EXPECT_EQ(rdma.alive("flow"), flows);
}

TEST_F(PortTest, FailedChangeLeavesTheOldState) {
    bring_up();
    const int flows = rdma.alive("flow");
    rdma.fail_always("create_flow", ENOMEM);
    EXPECT_EQ(rte_eth_promiscuous_enable(id()), -ENOMEM);
    EXPECT_EQ(rte_eth_promiscuous_get(id()), 0);
    rte_ether_addr mac{{2, 0, 0, 0, 0, 7}};
    EXPECT_EQ(rte_eth_dev_mac_addr_add(id(), &mac, 0), -ENOMEM);
    rte_ether_addr group{{1, 0, 0x5e, 0, 0, 1}};
    EXPECT_EQ(rte_eth_dev_set_mc_addr_list(id(), &group, 1), -ENOMEM);
    EXPECT_EQ(rdma.alive("flow"), flows);
    rdma.fail_always("create_flow", 0);
    EXPECT_EQ(rte_eth_promiscuous_enable(id()), 0);
    EXPECT_EQ(rte_eth_promiscuous_disable(id()), 0);
    EXPECT_EQ(rdma.alive("flow"), flows) << "what was refused does not come later";
}

TEST_F(PortTest, StatisticsOutliveQueuesAndResets) {
    bring_up();
    Port& port = Port::of(dev);
    port.rx_queues[0]->ring->counters = {
        .packets = 5, .bytes = 500, .errors = 1, .nombuf = 2, .recoveries = 1};
    port.rx_queues[1]->ring->counters.errors = 3;
    port.tx_queues[1]->ring->counters = {.packets = 7, .bytes = 700, .errors = 3, .recoveries = 0};
    rte_eth_stats stats{};
    ASSERT_EQ(rte_eth_stats_get(id(), &stats), 0);
    EXPECT_EQ(stats.ipackets, 5u);
    EXPECT_EQ(stats.ibytes, 500u);
    EXPECT_EQ(stats.ierrors, 4u);
    EXPECT_EQ(stats.rx_nombuf, 2u);
    EXPECT_EQ(stats.opackets, 7u);
    EXPECT_EQ(stats.oerrors, 3u);
    EXPECT_EQ(extended_stat("rx_q0_packets"), 5u);
    EXPECT_EQ(extended_stat("tx_q1_packets"), 7u);
    EXPECT_EQ(extended_stat("rx_q0_errors"), 1u);
    EXPECT_EQ(extended_stat("rx_q1_errors"), 3u);

    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(configure(1, 1), 0); // both queues are removed
    ASSERT_EQ(rte_eth_stats_get(id(), &stats), 0);
    EXPECT_EQ(stats.ipackets, 5u);
    EXPECT_EQ(stats.opackets, 7u);
    ASSERT_EQ(rte_eth_stats_reset(id()), 0);
    port.rx_queues[0]->ring->counters.packets += 4;
    ASSERT_EQ(rte_eth_stats_get(id(), &stats), 0);
    EXPECT_EQ(stats.ipackets, 4u);
    EXPECT_EQ(stats.opackets, 0u);
}

/// A queue that is refitted at start keeps counting from the same base.
TEST_F(PortTest, StatisticsOutliveAnotherMtu) {
    bring_up();
    Port& port = Port::of(dev);
    port.rx_queues[1]->ring->counters = {
        .packets = 5, .bytes = 500, .errors = 1, .nombuf = 2, .recoveries = 1};
    ASSERT_EQ(rte_eth_stats_reset(id()), 0);
    port.rx_queues[1]->ring->counters = {
        .packets = 9, .bytes = 900, .errors = 3, .nombuf = 5, .recoveries = 2};
    const RxRing* const before = port.rx_queues[1]->ring;
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 1000), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    ASSERT_NE(port.rx_queues[1]->ring, before) << "nothing was refitted";
    rte_eth_stats stats{};
    ASSERT_EQ(rte_eth_stats_get(id(), &stats), 0);
    EXPECT_EQ(stats.ipackets, 4u);
    EXPECT_EQ(stats.ibytes, 400u);
    EXPECT_EQ(stats.ierrors, 2u);
    EXPECT_EQ(stats.rx_nombuf, 3u);
    EXPECT_EQ(extended_stat("rx_q1_packets"), 4u);
}

/// What an error or a stop takes back may have been counted before statistics were reset.
TEST_F(PortTest, StatisticsNeverGoBelowZero) {
    bring_up();
    TxRing& ring = *Port::of(dev).tx_queues[0]->ring;
    ring.counters = {.packets = 10, .bytes = 1000, .errors = 0, .recoveries = 0};
    ASSERT_EQ(rte_eth_stats_reset(id()), 0);
    ring.counters = {.packets = 7, .bytes = 700, .errors = 3, .recoveries = 0};
    const auto expect_sent = [&](uint64_t packets, uint64_t bytes) {
        rte_eth_stats stats{};
        ASSERT_EQ(rte_eth_stats_get(id(), &stats), 0);
        EXPECT_EQ(stats.opackets, packets);
        EXPECT_EQ(stats.obytes, bytes);
        EXPECT_EQ(extended_stat("tx_q0_packets"), packets);
        EXPECT_EQ(stats.oerrors, 3u);
    };
    expect_sent(0, 0);
    ring.counters.packets += 5; // what is sent from now on counts from zero
    ring.counters.bytes += 500;
    expect_sent(5, 500);
}

TEST_F(PortTest, QueuesRecover) {
    bring_up();
    Port& port = Port::of(dev);
    RxQueue& rx = *port.rx_queues[1];
    EXPECT_EQ(port.reset(*rx.ring), 0);
    EXPECT_EQ(rx.wq->state, IBV_WQS_RDY);
    TxQueue& tx = *port.tx_queues[1];
    tx.qp->state = IBV_QPS_ERR;
    EXPECT_EQ(port.reset(*tx.ring), 0);
    EXPECT_EQ(tx.qp->state, IBV_QPS_RTS);
    rdma.fail_always("modify_wq", EIO);
    rdma.fail_always("modify_qp", EIO);
    EXPECT_EQ(port.reset(*rx.ring), -EIO);
    EXPECT_EQ(port.reset(*tx.ring), -EIO);
    rdma.fail_always("modify_wq", 0);
    rdma.fail_always("modify_qp", 0);
}

TEST_F(PortTest, LinkAndRemovalEvents) {
    bring_up();
    std::atomic<int> link_changes = 0;
    std::atomic<int> removals = 0;
    const auto count = [](uint16_t, rte_eth_event_type, void* counter, void*) {
        ++*static_cast<std::atomic<int>*>(counter);
        return 0;
    };
    const EventHandler on_link(RTE_ETH_EVENT_INTR_LSC, count, &link_changes);
    const EventHandler on_removal(RTE_ETH_EVENT_INTR_RMV, count, &removals);
    const auto wait_for = [](const std::atomic<int>& counter, int value) {
        for (int i = 0; i < 2000 && counter < value; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return counter.load();
    };

    rdma.port.state = IBV_PORT_DOWN;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_PORT_ERR;
    event.element.port_num = 1;
    rdma.raise(event);
    EXPECT_EQ(wait_for(link_changes, 1), 1);
    rte_eth_link link{};
    ASSERT_EQ(rte_eth_link_get_nowait(id(), &link), 0);
    EXPECT_EQ(link.link_status, RTE_ETH_LINK_DOWN);

    rdma.port.state = IBV_PORT_ACTIVE;
    event.event_type = IBV_EVENT_PORT_ACTIVE;
    event.element.port_num = 2; // another port: not ours
    rdma.raise(event);
    ibv_async_event fatal{};
    fatal.event_type = IBV_EVENT_DEVICE_FATAL;
    EXPECT_EQ(rte_eth_dev_is_removed(id()), 0);
    rdma.raise(fatal);
    EXPECT_EQ(wait_for(removals, 1), 1); // after the preceding event
    EXPECT_EQ(link_changes, 1);
    event.element.port_num = 1;
    rdma.raise(event);
    EXPECT_EQ(wait_for(link_changes, 2), 2);

    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rdma.port.state = IBV_PORT_DOWN;
    event.event_type = IBV_EVENT_PORT_ERR;
    rdma.raise(event);
    rdma.raise(fatal);
    EXPECT_EQ(wait_for(removals, 2), 2);
    EXPECT_EQ(link_changes, 2) << "of a stopped port nobody is told";
    EXPECT_EQ(rdma.acknowledged(), 6u);

    const rte_eth_conf asks_for_none{};
    ASSERT_EQ(rte_eth_dev_configure(id(), 0, 0, &asks_for_none), 0);
    rdma.raise(fatal);
    while (rdma.acknowledged() < 7)
        std::this_thread::yield();
    close(); // waits for the thread that handles the event
    EXPECT_EQ(removals, 2) << "who has not asked for it is not told";
}

// ---------------------------------------------------------------- Tx queues at run time

TEST_F(PortTest, TxQueuesStopAndStart) {
    bring_up();
    for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(rte_eth_dev_tx_queue_stop(id(), 1), 0);
        EXPECT_EQ(dev->data->tx_queue_state[1], RTE_ETH_QUEUE_STATE_STOPPED);
        EXPECT_EQ(dev->data->tx_queue_state[0], RTE_ETH_QUEUE_STATE_STARTED);
        ASSERT_EQ(rte_eth_dev_tx_queue_start(id(), 1), 0);
        EXPECT_EQ(dev->data->tx_queue_state[1], RTE_ETH_QUEUE_STATE_STARTED);
    }
    rdma.fail_always("modify_qp", EIO);
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(id(), 0), 0);
    EXPECT_EQ(rte_eth_dev_tx_queue_start(id(), 0), -EIO);
    EXPECT_EQ(dev->data->tx_queue_state[0], RTE_ETH_QUEUE_STATE_STOPPED);
}

/// Each could take 200 ms, as nothing leaves; all together take no longer.
TEST_F(PortTest, TxQueuesAreStoppedTogether) {
    constexpr uint16_t kMany = 8;
    ASSERT_TRUE(attach());
    ASSERT_EQ(configure(1, kMany), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    for (uint16_t queue = 0; queue < kMany; ++queue) {
        rte_mbuf* mbuf = rte_pktmbuf_alloc(pool.get());
        rte_pktmbuf_append(mbuf, 64);
        ASSERT_EQ(rte_eth_tx_burst(id(), queue, &mbuf, 1), 1u);
    }
    const auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(800));
    EXPECT_EQ(extended_stat("tx_unsent_packets"), kMany);
}

TEST_F(PortTest, DeferredTxQueuesWait) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rte_eth_txconf conf{};
    conf.tx_deferred_start = 1;
    ASSERT_EQ(rte_eth_tx_queue_setup(id(), 1, kDescriptors, 0, &conf), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(dev->data->tx_queue_state[0], RTE_ETH_QUEUE_STATE_STARTED);
    EXPECT_EQ(dev->data->tx_queue_state[1], RTE_ETH_QUEUE_STATE_STOPPED);
    rte_eth_txq_info info{};
    ASSERT_EQ(rte_eth_tx_queue_info_get(id(), 1, &info), 0);
    EXPECT_EQ(info.conf.tx_deferred_start, 1);
    EXPECT_EQ(rte_eth_dev_tx_queue_start(id(), 1), 0);
}

TEST_F(PortTest, DeferredRxQueuesWait) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rte_eth_rxconf conf{};
    conf.rx_deferred_start = 1;
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, &conf, pool.get()), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(dev->data->rx_queue_state[0], RTE_ETH_QUEUE_STATE_STARTED);
    EXPECT_EQ(dev->data->rx_queue_state[1], RTE_ETH_QUEUE_STATE_STOPPED);
    rte_eth_rxq_info info{};
    ASSERT_EQ(rte_eth_rx_queue_info_get(id(), 1, &info), 0);
    EXPECT_EQ(info.conf.rx_deferred_start, 1);
    EXPECT_EQ(info.conf.rx_drop_en, 1) << "as devices do";
    ASSERT_EQ(rte_eth_rx_queue_info_get(id(), 0, &info), 0);
    EXPECT_EQ(info.conf.rx_deferred_start, 0);
    EXPECT_EQ(rte_eth_dev_rx_queue_start(id(), 1), 0);
}

TEST_F(PortTest, FastFreeIsAPromiseOfAllQueues) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rte_eth_conf conf{};
    conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
    ASSERT_EQ(rte_eth_dev_configure(id(), kQueues, kQueues, &conf), 0);
    const SharedBursts& bursts = Port::of(dev).shared.bursts;
    for (const uint16_t queue : {uint16_t{1}, uint16_t{0}}) { // the other one is older
        ASSERT_EQ(rte_eth_tx_queue_setup(id(), queue, kDescriptors, 0, nullptr), 0);
        ASSERT_EQ(rte_eth_dev_start(id()), 0);
        EXPECT_EQ((bursts.tx_spec().offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0, queue == 0);
        ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    }
}

/// For a port whose netdev is not visible: InfiniBand encodes lanes as bits, with 2x last.
TEST_F(PortTest, SpeedsByTheNumberOfLanes) {
    ibv_port_attr attributes{};
    attributes.state = IBV_PORT_ACTIVE;
    attributes.active_speed = 1 << 5; // EDR
    for (const auto& [width, lanes] : {std::pair{1, 1u}, {2, 4u}, {4, 8u}, {8, 12u}, {16, 2u}}) {
        attributes.active_width = static_cast<uint8_t>(width);
        EXPECT_EQ(link_of(attributes).link_speed, 25'000 * lanes);
    }
}

TEST_F(PortTest, TxQueuesAreSetUpAtRunTime) {
    bring_up();
    EXPECT_EQ(rte_eth_tx_queue_setup(id(), 1, kDescriptors, 0, nullptr), -EBUSY) << "it runs";
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(id(), 1), 0);
    ASSERT_EQ(rte_eth_tx_queue_setup(id(), 1, 2 * kDescriptors, 0, nullptr), 0);
    rte_eth_txq_info info{};
    ASSERT_EQ(rte_eth_tx_queue_info_get(id(), 1, &info), 0);
    EXPECT_EQ(info.nb_desc, 2 * kDescriptors);
    ASSERT_EQ(rte_eth_dev_tx_queue_start(id(), 1), 0);
}

/// The port runs with the burst function of queues that were set up before it was reconfigured.
TEST_F(PortTest, TxQueueAtRunTimeThatNeedsAnotherBurst) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rte_eth_conf conf{};
    conf.txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    ASSERT_EQ(rte_eth_dev_configure(id(), kQueues, kQueues, &conf), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(id(), 1), 0);
    EXPECT_EQ(rte_eth_tx_queue_setup(id(), 1, kDescriptors, 0, nullptr), -EBUSY);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_tx_queue_setup(id(), 1, kDescriptors, 0, nullptr), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
}

TEST_F(PortTest, RateLimits) {
    bring_up();
    EXPECT_EQ(rte_eth_set_queue_rate_limit(id(), 0, 10), -ENOTSUP);
    close();
    rdma.attributes.packet_pacing_caps = {.qp_rate_limit_min = 2000,
                                          .qp_rate_limit_max = 30'000,
                                          .supported_qpts = 1u << IBV_QPT_RAW_PACKET};
    bring_up();
    EXPECT_EQ(rte_eth_set_queue_rate_limit(id(), 0, 1), -EINVAL);
    EXPECT_EQ(rte_eth_set_queue_rate_limit(id(), 0, 31), -EINVAL);
    EXPECT_EQ(rte_eth_set_queue_rate_limit(id(), kQueues, 10), -EINVAL); // ethdev only checks the
    EXPECT_EQ(rte_eth_set_queue_rate_limit(id(), 100, 10), -EINVAL);     // device limit
    ASSERT_EQ(rte_eth_set_queue_rate_limit(id(), 0, 10), 0);
    ASSERT_EQ(rdma.rates.size(), 1u);
    EXPECT_EQ(rdma.rates.begin()->second, 10'000u);
    ASSERT_EQ(rte_eth_dev_tx_queue_stop(id(), 0), 0);
    EXPECT_TRUE(rdma.rates.empty());
    ASSERT_EQ(rte_eth_dev_tx_queue_start(id(), 0), 0);
    ASSERT_EQ(rdma.rates.size(), 1u) << "kept";
    ASSERT_EQ(rte_eth_set_queue_rate_limit(id(), 0, 0), 0);
    EXPECT_EQ(rdma.rates.begin()->second, 0u);
}

} // namespace
} // namespace rawqp::test
