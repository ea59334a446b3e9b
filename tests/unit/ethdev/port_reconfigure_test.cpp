// SPDX-License-Identifier: BSD-3-Clause
// What an application changes on a port that is already set up: MTU, number of queues, VLANs.
#include "tests/unit/ethdev/port_fixture.hpp"
#include "tests/unit/flow/rule.hpp"

namespace rawqp::test {
namespace {

TEST_F(PortTest, MtuAndScatter) {
    bring_up();
    // 2 KB mbufs cannot hold a jumbo frame without scattering.
    EXPECT_EQ(rte_eth_dev_set_mtu(id(), 9000), -EINVAL);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);

    rx_offloads = RTE_ETH_RX_OFFLOAD_SCATTER;
    ASSERT_EQ(configure(1, 1), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(rte_eth_dev_set_mtu(id(), 9000), -EBUSY); // one mbuf per frame so far
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 9000), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(mbufs_in_use(), kDescriptors) << "a descriptor is an mbuf";
    rte_eth_rxq_info info{};
    ASSERT_EQ(rte_eth_rx_queue_info_get(id(), 0, &info), 0);
    EXPECT_EQ(info.scattered_rx, 1);
    EXPECT_EQ(info.nb_desc, kDescriptors);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 3000), 0); // needs two mbufs
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    ASSERT_EQ(rte_eth_rx_queue_info_get(id(), 0, &info), 0);
    EXPECT_EQ(info.scattered_rx, 1);
    EXPECT_EQ(rte_eth_dev_set_mtu(id(), 1500), 0);
}

/// As OVS changes an MTU: the old queues still exist, but are about to be replaced.
TEST_F(PortTest, MtuBeforeNewQueues) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    const test_eal::Pool large = test_eal::make_pool(255, 9216 + RTE_PKTMBUF_HEADROOM);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 9000), 0);
    for (uint16_t i = 0; i < kQueues; ++i)
        ASSERT_EQ(rte_eth_rx_queue_setup(id(), i, kDescriptors, 0, nullptr, large.get()), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(dev->data->mtu, 9000);
    EXPECT_EQ(rte_mempool_in_use_count(large.get()), kQueues * kDescriptors);
    close();
}

/// A queue that could not be set up again while the port runs has no say, nor has its pool.
TEST_F(PortTest, MtuBesideAReleasedQueue) {
    ASSERT_TRUE(attach());
    ASSERT_EQ(configure(kQueues, kQueues), 0);
    test_eal::Pool other = test_eal::make_pool(255);
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, other.get()), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    rdma.fail_next("create_wq", ENOMEM);
    EXPECT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), -ENOMEM);
    other.reset();
    EXPECT_EQ(rte_eth_dev_set_mtu(id(), 1400), 0);
}

TEST_F(PortTest, AReleasedQueueIsToBeSetUpBeforeTheNextStart) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    rdma.fail_next("create_wq", ENOMEM);
    EXPECT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), -ENOMEM);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    testing::internal::CaptureStderr();
    EXPECT_EQ(rte_eth_dev_start(id()), -EINVAL);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::HasSubstr("Rx queue 1 is not set up"));
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), 0);
    EXPECT_EQ(rte_eth_dev_start(id()), 0);
}

/// The refusal makes ethdev forget all queues, but it does not know of the released one.
TEST_F(PortTest, APortWithAReleasedQueueIsClosedAfterARefusedConfiguration) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    rdma.fail_next("create_wq", ENOMEM);
    EXPECT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), -ENOMEM);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rte_eth_conf conf{};
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_VMDQ_ONLY;
    EXPECT_EQ(rte_eth_dev_configure(id(), kQueues, kQueues, &conf), -ENOTSUP);
    close();
}

/// What still works when no rule can be created for a new queue is in the log.
TEST_F(PortTest, AQueueWithoutRules) {
    bring_up();
    const int rules = rdma.alive("flow");
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    rdma.fail_always("create_flow", ENOMEM);
    testing::internal::CaptureStderr();
    EXPECT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), -ENOMEM);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::AllOf(testing::HasSubstr("Rx queue 1 is set up, but the port's rules"),
                               testing::HasSubstr("stop the port and start it")));
    EXPECT_EQ(rdma.alive("flow"), 0);
    rdma.fail_always("create_flow", 0);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(rdma.alive("flow"), rules);
}

/// If queues cannot take the MTU, start says so, and everything is as before.
TEST_F(PortTest, StartRefusesAnMtuThatDoesNotFit) {
    bring_up();
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 9000), 0);
    testing::internal::CaptureStderr();
    EXPECT_EQ(rte_eth_dev_start(id()), -EINVAL);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                testing::AllOf(testing::HasSubstr("Rx queue 0"), testing::HasSubstr("9018 bytes"),
                               testing::HasSubstr("RTE_ETH_RX_OFFLOAD_SCATTER")));
    EXPECT_EQ(mbufs_in_use(), 0u);
    EXPECT_EQ(rdma.alive("flow"), 0);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 1500), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(mbufs_in_use(), kQueues * kDescriptors);
}

/// A port that only sends, or only receives, one after the other.
TEST_F(PortTest, NoQueuesOfOneKind) {
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    for (const auto& [rx, tx] : {std::pair<uint16_t, uint16_t>{0, 1}, {2, 0}, {0, 2}, {1, 1}}) {
        ASSERT_EQ(configure(rx, tx), 0);
        ASSERT_EQ(rte_eth_dev_start(id()), 0);
        EXPECT_EQ(rdma.alive("WQ"), rx);
        EXPECT_EQ(rdma.alive("flow") > 0, rx > 0);
        EXPECT_EQ(rte_eth_promiscuous_enable(id()), 0);
        EXPECT_EQ(rte_eth_promiscuous_disable(id()), 0);
        EXPECT_EQ(rte_eth_allmulticast_enable(id()), 0);
        EXPECT_EQ(rte_eth_allmulticast_disable(id()), 0);
        rte_ether_addr mac{{2, 0, 0, 0, 0, 7}};
        EXPECT_EQ(rte_eth_dev_mac_addr_add(id(), &mac, 0), 0);
        EXPECT_EQ(rte_eth_dev_mac_addr_remove(id(), &mac), 0);
        rte_eth_rss_conf conf{};
        conf.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_TCP;
        EXPECT_EQ(rte_eth_dev_rss_hash_update(id(), &conf), 0);
        EXPECT_EQ(rte_eth_dev_set_mtu(id(), 1400), 0);

        const Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).action(RTE_FLOW_ACTION_TYPE_DROP);
        rte_flow_error error{};
        EXPECT_EQ(rte_flow_validate(id(), &rule.attr, rule.pattern(), rule.actions(), &error) == 0,
                  rx > 0);
        if (rx == 0) {
            EXPECT_THAT(error.message, testing::HasSubstr("no Rx queue"));
        }
        ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    }
    close();
}

/// Rules created while there were queues do not vanish silently.
TEST_F(PortTest, RulesNeedTheirQueuesAtStart) {
    bring_up();
    const Rule rule = Rule().item(RTE_FLOW_ITEM_TYPE_ETH).action(RTE_FLOW_ACTION_TYPE_DROP);
    ASSERT_NE(rte_flow_create(id(), &rule.attr, rule.pattern(), rule.actions(), nullptr), nullptr);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(configure(0, 1), 0);
    EXPECT_EQ(rte_eth_dev_start(id()), -EINVAL);
    ASSERT_EQ(rte_flow_flush(id(), nullptr), 0);
    EXPECT_EQ(rte_eth_dev_start(id()), 0);
}

TEST_F(PortTest, VlanFilter) {
    rx_offloads = RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
    bring_up();
    const int all = rdma.alive("flow");
    ASSERT_EQ(rte_eth_dev_vlan_filter(id(), 5, 1), 0);
    EXPECT_EQ(rdma.alive("flow"), all); // they replace those for any tag
    ASSERT_EQ(rte_eth_dev_vlan_filter(id(), 4095, 1), 0);
    EXPECT_EQ(rdma.alive("flow"), 2 * all);
    rdma.fail_always("create_flow", ENOMEM);
    EXPECT_EQ(rte_eth_dev_vlan_filter(id(), 7, 1), -ENOMEM);
    EXPECT_NE(rte_eth_dev_set_vlan_offload(id(), 0), 0); // off: rules for any tag
    EXPECT_NE(rte_eth_dev_set_vlan_offload(id(), RTE_ETH_VLAN_STRIP_OFFLOAD), 0);
    for (const auto& queue : Port::of(dev).rx_queues)
        EXPECT_EQ(queue->spec.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP, 0u);
    EXPECT_EQ(rdma.alive("flow"), 2 * all);
    rdma.fail_always("create_flow", 0);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(rdma.alive("flow"), 2 * all);
    ASSERT_EQ(rte_eth_dev_set_vlan_offload(id(), 0), 0);
    EXPECT_EQ(rdma.alive("flow"), all);
    ASSERT_EQ(rte_eth_dev_set_vlan_offload(id(), RTE_ETH_VLAN_FILTER_OFFLOAD), 0);
    EXPECT_EQ(rdma.alive("flow"), 2 * all);
    ASSERT_EQ(rte_eth_dev_vlan_filter(id(), 5, 0), 0);
    ASSERT_EQ(rte_eth_dev_vlan_filter(id(), 4095, 0), 0);
    EXPECT_EQ(rdma.alive("flow"), all);
}

/// For a queue that puts the first 16 bytes of packets in a separate mbuf.
struct SplitInTwo {
    SplitInTwo(rte_mempool* pool, uint64_t offloads) {
        for (rte_eth_rxseg& segment : segments)
            segment.split.mp = pool;
        segments[0].split.length = 16;
        conf.rx_seg = reinterpret_cast<decltype(conf.rx_seg)>(segments);
        conf.rx_nseg = 2;
        conf.offloads = offloads;
    }
    SplitInTwo(const SplitInTwo&) = delete;
    SplitInTwo& operator=(const SplitInTwo&) = delete;

    rte_eth_rxseg segments[2]{};
    rte_eth_rxconf conf{};
};

/// A queue whose first segment has no room for the headers that move up cannot strip.
TEST_F(PortTest, AllQueuesStripOrNone) {
    rx_offloads = RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT | RTE_ETH_RX_OFFLOAD_SCATTER;
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    ASSERT_EQ(configure(2, 1), 0);
    const SplitInTwo split(pool.get(), rx_offloads);
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, &split.conf, nullptr), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(rte_eth_dev_set_vlan_offload(id(), RTE_ETH_VLAN_STRIP_OFFLOAD), -ENOTSUP);
    for (const auto& queue : Port::of(dev).rx_queues)
        EXPECT_EQ(queue->spec.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP, 0u);
    EXPECT_EQ(rte_eth_dev_get_vlan_offload(id()), 0);
}

/// Also when the queue was recreated for another MTU.
TEST_F(PortTest, AQueueTellsHowItSplitsPackets) {
    rx_offloads = RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT | RTE_ETH_RX_OFFLOAD_SCATTER;
    const Result<void> done = attach();
    ASSERT_TRUE(done) << done.error().what;
    ASSERT_EQ(configure(2, 1), 0);
    const auto told = [&] {
        rte_eth_rxq_info info{};
        EXPECT_EQ(rte_eth_rx_queue_info_get(id(), 1, &info), 0);
        return info;
    };
    EXPECT_EQ(told().conf.rx_seg, nullptr);
    EXPECT_EQ(told().rx_buf_size, rte_pktmbuf_data_room_size(pool.get()) - RTE_PKTMBUF_HEADROOM);
    {
        SplitInTwo split(pool.get(), rx_offloads);
        split.segments[1].split.length = 1600;
        split.segments[1].split.offset = 8;
        ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, &split.conf, nullptr), 0);
        std::ranges::fill(split.segments, rte_eth_rxseg{});
    }
    const rte_eth_rxq_info info = told();
    ASSERT_EQ(info.conf.rx_nseg, 2);
    EXPECT_EQ(info.conf.rx_seg[0].split.mp, pool.get());
    EXPECT_EQ(info.conf.rx_seg[0].split.length, 16);
    EXPECT_EQ(info.conf.rx_seg[1].split.offset, 8);
    EXPECT_EQ(info.mp, pool.get());
    EXPECT_EQ(info.rx_buf_size, 16);
    EXPECT_EQ(info.scattered_rx, 1);
    EXPECT_EQ(info.nb_desc, kDescriptors);
    ASSERT_EQ(rte_eth_dev_set_mtu(id(), 1400), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(told().conf.rx_seg, info.conf.rx_seg);
    EXPECT_EQ(info.conf.rx_seg[0].split.length, 16);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get()), 0);
    EXPECT_EQ(told().conf.rx_nseg, 0);
}

/// Each set-up call fails in turn, including those for the port's rules: the port and its rules
/// continue as before, and the application can try again.
TEST_F(PortTest, AQueueThatCannotBeSetUpWhileThePortRunsLeavesTheOthers) {
    bring_up();
    rte_flow_error error{};
    const auto create = [&](uint16_t port) {
        rte_flow_item_udp udp{};
        udp.hdr.dst_port = rte_cpu_to_be_16(port);
        const Rule rule = Rule()
                              .item(RTE_FLOW_ITEM_TYPE_ETH)
                              .item(RTE_FLOW_ITEM_TYPE_IPV4)
                              .item(RTE_FLOW_ITEM_TYPE_UDP, &udp)
                              .queue(0);
        rte_flow* const made =
            rte_flow_create(id(), &rule.attr, rule.pattern(), rule.actions(), &error);
        EXPECT_NE(made, nullptr) << error.message;
        return made;
    };
    create(7);
    ASSERT_EQ(rte_eth_dev_rx_queue_stop(id(), 1), 0);
    const std::string before = rdma.alive();
    const int flows = rdma.alive("flow");
    int withdrawn = 0;
    for (int nth = 1;; ++nth) {
        testing::internal::CaptureStderr();
        rdma.fail_call(nth, ENOMEM);
        const int result = rte_eth_rx_queue_setup(id(), 1, kDescriptors, 0, nullptr, pool.get());
        const std::string failed = rdma.failed();
        rdma.fail_call(0, 0);
        const std::string log = testing::internal::GetCapturedStderr();
        SCOPED_TRACE(fmt::format("call {} ({}) fails: {}", nth, failed, log));
        EXPECT_EQ(rdma.alive(), before);
        if (failed.empty()) {
            EXPECT_EQ(result, 0);
            break;
        }
        if (result == 0) continue; // the port can do without it
        EXPECT_EQ(result, -ENOMEM);
        EXPECT_EQ(dev->data->rx_queues[1], nullptr);
        EXPECT_EQ(rte_eth_dev_rx_queue_start(id(), 1), -EINVAL) << "there is none";
        withdrawn += log.find("the port goes on without it") != std::string::npos ? 1 : 0;
        rte_flow* const other = create(8);
        EXPECT_EQ(rdma.alive("flow"), flows + 1) << "in the device";
        EXPECT_EQ(rte_flow_destroy(id(), other, &error), 0);
    }
    EXPECT_GE(withdrawn, flows);
    EXPECT_EQ(rte_eth_dev_rx_queue_start(id(), 1), 0);
}

TEST_F(PortTest, QueuesTellWhetherTheyStrip) {
    bring_up();
    for (const int offloads : {RTE_ETH_VLAN_STRIP_OFFLOAD, 0}) {
        ASSERT_EQ(rte_eth_dev_set_vlan_offload(id(), offloads), 0);
        rte_eth_rxq_info info{};
        ASSERT_EQ(rte_eth_rx_queue_info_get(id(), 1, &info), 0);
        EXPECT_EQ((info.conf.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0, offloads != 0);
    }
}

TEST_F(PortTest, IsolationTakesThePortsOwnRulesOut) {
    bring_up();
    const int own = rdma.alive("flow");
    EXPECT_GT(own, 0);
    ASSERT_EQ(rte_flow_isolate(id(), 1, nullptr), 0);
    EXPECT_EQ(rdma.alive("flow"), 0);
    ASSERT_EQ(rte_eth_promiscuous_enable(id()), 0); // takes effect later
    EXPECT_EQ(rdma.alive("flow"), 0);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    ASSERT_EQ(rte_eth_dev_start(id()), 0);
    EXPECT_EQ(rdma.alive("flow"), 0);

    rdma.fail_always("create_flow", ENOMEM);
    rte_flow_error error{};
    EXPECT_EQ(rte_flow_isolate(id(), 0, &error), -ENOMEM);
    EXPECT_THAT(error.message, testing::HasSubstr("own filters cannot be installed again"));
    rdma.fail_always("create_flow", 0);
    EXPECT_EQ(rdma.alive("flow"), 0);
    ASSERT_EQ(rte_flow_isolate(id(), 0, &error), 0);
    EXPECT_GT(rdma.alive("flow"), own); // also those of promiscuous mode
    ASSERT_EQ(rte_eth_promiscuous_disable(id()), 0);
    EXPECT_EQ(rdma.alive("flow"), own);
}

TEST_F(PortTest, MtuWithKeptChecksum) {
    rdma.attributes.raw_packet_caps |= IBV_RAW_PACKET_CAP_SCATTER_FCS;
    rx_offloads = RTE_ETH_RX_OFFLOAD_KEEP_CRC | RTE_ETH_RX_OFFLOAD_SCATTER;
    bring_up();
    constexpr uint16_t kFits = 2048 - RTE_ETHER_HDR_LEN - RTE_VLAN_HLEN - RTE_ETHER_CRC_LEN;
    EXPECT_EQ(rte_eth_dev_set_mtu(id(), kFits), 0);
    // The device also writes the checksum, into mbufs of 2048 bytes.
    EXPECT_EQ(rte_eth_dev_set_mtu(id(), kFits + 1), -EBUSY);
    ASSERT_EQ(rte_eth_dev_stop(id()), 0);
    rx_offloads = RTE_ETH_RX_OFFLOAD_KEEP_CRC;
    ASSERT_EQ(configure(1, 1), 0);
    EXPECT_EQ(rte_eth_dev_set_mtu(id(), kFits + 1), 0);
    EXPECT_EQ(rte_eth_dev_start(id()), -EINVAL);
}

} // namespace
} // namespace rawqp::test
