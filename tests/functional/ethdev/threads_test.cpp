// SPDX-License-Identifier: BSD-3-Clause
// Threads that each send and receive on one queue, and one that makes control calls meanwhile, as
// ethdev allows. The caller queries telemetry and lets links flap at the same time;
// tests/functional/test_threads.py runs it under ThreadSanitizer. Each queue has its own pools:
// mbufs that pass between threads through DPDK's rings would look like races.
#include "tests/functional/ethdev/port.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <thread>

namespace test {
namespace {

constexpr uint16_t kOther = 1; // a port without traffic
constexpr unsigned kSeconds = 3, kRounds = 10;
constexpr unsigned kBurst = 8, kPoolSize = 8 * kDescriptors;
constexpr uint64_t kMostUnderWay = 256; // per thread
constexpr uint16_t kUdpPort = 7;
constexpr unsigned kRetaGroups = 8; // of 64 entries

/// A UDP packet to the port, from 64 flows in turn.
struct Packet {
    rte_ether_hdr eth;
    rte_ipv4_hdr ip;
    rte_udp_hdr udp;
    std::array<uint8_t, 30> payload;
};
static_assert(sizeof(Packet) == 72, "as on the wire, without gaps");

Packet packet_for(const rte_ether_addr& mac) {
    Packet packet{};
    packet.eth.dst_addr = packet.eth.src_addr = mac;
    packet.eth.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
    packet.ip.version_ihl = RTE_IPV4_VHL_DEF;
    packet.ip.total_length = rte_cpu_to_be_16(sizeof packet - sizeof packet.eth);
    packet.ip.time_to_live = 64;
    packet.ip.next_proto_id = IPPROTO_UDP;
    packet.ip.dst_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 2));
    packet.ip.hdr_checksum = rte_ipv4_cksum(&packet.ip);
    packet.udp.dst_port = rte_cpu_to_be_16(kUdpPort);
    packet.udp.dgram_len = rte_cpu_to_be_16(sizeof packet.udp + sizeof packet.payload);
    packet.payload.fill(0x5a);
    return packet;
}

/// What the threads share. Packets come back to any of them.
struct Traffic {
    std::atomic<bool> sends = true, receives = true;
    std::atomic<unsigned> have_sent = 0; ///< threads that have stopped sending
    std::atomic<uint64_t> sent = 0, received = 0, damaged = 0;
};

/// Polls queue `queue` in each direction.
class Poller {
  public:
    Poller(Traffic& traffic, uint16_t queue, rte_mempool* pool, const Packet& packet)
        : traffic_(traffic), queue_(queue), pool_(pool), packet_(packet), thread_([this] {
              while (traffic_.sends) {
                  send();
                  receive();
              }
              ++traffic_.have_sent;
              while (traffic_.receives)
                  receive();
          }) {}
    ~Poller() { thread_.join(); }

  private:
    void send() {
        if (traffic_.sent - traffic_.received > kMostUnderWay) return;
        rte_mbuf* packets[kBurst];
        if (rte_pktmbuf_alloc_bulk(pool_, packets, kBurst) != 0) return;
        for (rte_mbuf* const packet : packets) {
            packet_.udp.src_port = rte_cpu_to_be_16(static_cast<uint16_t>(1000 + flow_++ % 64));
            std::memcpy(rte_pktmbuf_append(packet, sizeof packet_), &packet_, sizeof packet_);
        }
        const uint16_t sent = rte_eth_tx_burst(kPort, queue_, packets, kBurst);
        rte_pktmbuf_free_bulk(packets + sent, kBurst - sent);
        traffic_.sent += sent;
    }
    void receive() {
        rte_mbuf* packets[2 * kBurst];
        const uint16_t got = rte_eth_rx_burst(kPort, queue_, packets, 2 * kBurst);
        for (uint16_t i = 0; i < got; ++i) {
            const auto* const seen = rte_pktmbuf_mtod(packets[i], const Packet*);
            if (packets[i]->pkt_len != sizeof *seen || seen->payload != packet_.payload)
                ++traffic_.damaged;
        }
        rte_pktmbuf_free_bulk(packets, got);
        traffic_.received += got;
    }

    Traffic& traffic_;
    uint16_t queue_;
    rte_mempool* pool_;
    Packet packet_;
    unsigned flow_ = 0;
    std::thread thread_;
};

class Threads : public PortTest {
  protected:
    void SetUp() override {
        ASSERT_TRUE(rte_eth_dev_is_valid_port(kOther)) << "give two --vdev";
        for (const uint16_t port : {kPort, kOther}) {
            rte_eth_conf conf{};
            conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP;
            conf.intr_conf.lsc = 1;
            ASSERT_EQ(rte_eth_dev_configure(port, kQueues, kQueues, &conf), 0);
            for (uint16_t queue = 0; queue < kQueues; ++queue) {
                ASSERT_EQ(rte_eth_rx_queue_setup(port, queue, kDescriptors, SOCKET_ID_ANY, nullptr,
                                                 make_pool(kPoolSize)),
                          0);
                ASSERT_EQ(rte_eth_tx_queue_setup(port, queue, kDescriptors, SOCKET_ID_ANY, nullptr),
                          0);
            }
            ASSERT_EQ(rte_eth_dev_start(port), 0);
        }
    }
    void TearDown() override {
        for (const uint16_t port : {kPort, kOther})
            EXPECT_EQ(rte_eth_dev_stop(port), 0);
        EXPECT_EQ(rte_eth_dev_close(kOther), 0);
    }

    /// What telemetry asks on a thread of its own from DPDK 23.07 on.
    static void ask_burst_modes(const std::atomic<bool>& goes_on) {
        while (goes_on)
            for (const uint16_t port : {kPort, kOther})
                for (uint16_t queue = 0; queue < kQueues; ++queue) {
                    rte_eth_burst_mode mode{};
                    EXPECT_EQ(rte_eth_rx_burst_mode_get(port, queue, &mode), 0);
                    EXPECT_EQ(rte_eth_tx_burst_mode_get(port, queue, &mode), 0);
                }
    }
    static void look(uint16_t port) {
        rte_eth_stats stats{};
        EXPECT_EQ(rte_eth_stats_get(port, &stats), 0);
        const int count = rte_eth_xstats_get(port, nullptr, 0);
        ASSERT_GT(count, 0);
        std::vector<rte_eth_xstat> values(static_cast<size_t>(count));
        std::vector<rte_eth_xstat_name> names(values.size());
        EXPECT_EQ(rte_eth_xstats_get_names(port, names.data(), names.size()), count);
        EXPECT_EQ(rte_eth_xstats_get(port, values.data(), values.size()), count);
        rte_eth_link link{};
        EXPECT_EQ(rte_eth_link_get_nowait(port, &link), 0);
        rte_eth_dev_info info{};
        EXPECT_EQ(rte_eth_dev_info_get(port, &info), 0);
        rte_eth_burst_mode mode{};
        EXPECT_EQ(rte_eth_rx_burst_mode_get(port, 0, &mode), 0);
        EXPECT_NE(written([&](FILE* file) { return rte_eth_dev_priv_dump(port, file); }), "");
    }
    static void change_filters() {
        rte_ether_addr mac{{2, 0, 0, 0, 0, 9}};
        EXPECT_EQ(rte_eth_promiscuous_enable(kPort), 0);
        EXPECT_EQ(rte_eth_allmulticast_enable(kPort), 0);
        EXPECT_EQ(rte_eth_dev_mac_addr_add(kPort, &mac, 0), 0);
        EXPECT_EQ(rte_eth_dev_mac_addr_remove(kPort, &mac), 0);
        EXPECT_EQ(rte_eth_allmulticast_disable(kPort), 0);
        EXPECT_EQ(rte_eth_promiscuous_disable(kPort), 0);
    }
    /// Marks the packets of all threads and sends them to one queue for a while.
    static void steer(uint16_t queue) {
        rte_flow_item_udp spec{}, mask{};
        spec.hdr.dst_port = rte_cpu_to_be_16(kUdpPort);
        mask.hdr.dst_port = 0xffff;
        const auto item = [](rte_flow_item_type type, const void* value = nullptr,
                             const void* masked = nullptr) {
            return rte_flow_item{.type = type, .spec = value, .last = nullptr, .mask = masked};
        };
        const rte_flow_item pattern[] = {
            item(RTE_FLOW_ITEM_TYPE_ETH), item(RTE_FLOW_ITEM_TYPE_IPV4),
            item(RTE_FLOW_ITEM_TYPE_UDP, &spec, &mask), item(RTE_FLOW_ITEM_TYPE_END)};
        const rte_flow_action_queue target{.index = queue};
        const rte_flow_action_mark mark{.id = queue};
        const rte_flow_action actions[] = {{.type = RTE_FLOW_ACTION_TYPE_MARK, .conf = &mark},
                                           {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &target},
                                           {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr}};
        rte_flow_attr attributes{};
        attributes.ingress = 1;
        rte_flow_error error{};
        rte_flow* const rule = rte_flow_create(kPort, &attributes, pattern, actions, &error);
        ASSERT_NE(rule, nullptr) << error.message;
        EXPECT_EQ(rte_flow_destroy(kPort, rule, &error), 0) << error.message;
    }
    static void change_spread(uint16_t first) {
        rte_eth_dev_info info{};
        ASSERT_EQ(rte_eth_dev_info_get(kPort, &info), 0);
        ASSERT_LE(info.reta_size, kRetaGroups * RTE_ETH_RETA_GROUP_SIZE);
        std::array<rte_eth_rss_reta_entry64, kRetaGroups> table{};
        for (uint16_t entry = 0; entry < info.reta_size; ++entry) {
            auto& group = table[entry / RTE_ETH_RETA_GROUP_SIZE];
            group.mask = ~0ull;
            group.reta[entry % RTE_ETH_RETA_GROUP_SIZE] =
                static_cast<uint16_t>((first + entry) % kQueues);
        }
        EXPECT_EQ(rte_eth_dev_rss_reta_update(kPort, table.data(), info.reta_size), 0);
    }
    /// If threads get no CPU for a second, the wire stops waiting for them.
    static uint64_t missed() { return PortTest::stats().imissed; }
    /// Memory that the driver registers and unregisters.
    static void change_memory() { rte_mempool_free(make_pool(64)); }
    static void restart_other(uint16_t mtu) {
        EXPECT_EQ(rte_eth_dev_stop(kOther), 0);
        EXPECT_EQ(rte_eth_dev_set_mtu(kOther, mtu), 0);
        EXPECT_EQ(rte_eth_dev_start(kOther), 0);
        EXPECT_EQ(rte_eth_stats_reset(kOther), 0);
        EXPECT_EQ(rte_eth_xstats_reset(kOther), 0);
    }
};

TEST_F(Threads, ControlCallsBesideTraffic) {
    rte_ether_addr mac;
    ASSERT_EQ(rte_eth_macaddr_get(kPort, &mac), 0);
    Traffic traffic;
    {
        std::vector<std::unique_ptr<Poller>> pollers;
        for (uint16_t queue = 0; queue < kQueues; ++queue)
            pollers.push_back(
                std::make_unique<Poller>(traffic, queue, make_pool(kPoolSize), packet_for(mac)));
        std::thread asking([&] { ask_burst_modes(traffic.sends); });
        std::puts("traffic runs");
        std::fflush(stdout);
        const uint64_t end = rte_get_tsc_cycles() + kSeconds * rte_get_tsc_hz();
        for (uint16_t round = 0; round < kRounds || rte_get_tsc_cycles() < end; ++round) {
            look(kPort);
            look(kOther);
            change_filters();
            steer(round % kQueues);
            change_spread(round % kQueues);
            change_memory();
            restart_other(round % 2 != 0 ? 1400 : 1500);
        }
        traffic.sends = false;
        asking.join();
        EXPECT_TRUE(wait(10000,
                         [&] {
                             return traffic.have_sent == kQueues &&
                                    traffic.received + missed() == traffic.sent;
                         }))
            << traffic.received << " of " << traffic.sent << " came back, " << missed()
            << " were missed";
        traffic.receives = false;
    }
    EXPECT_EQ(traffic.damaged, 0u);
    EXPECT_GT(traffic.received, 1000u);
    const rte_eth_stats stats = PortTest::stats();
    EXPECT_EQ(stats.ipackets, traffic.received);
    EXPECT_EQ(stats.opackets, traffic.sent);
    EXPECT_EQ(stats.ierrors + stats.oerrors + stats.rx_nombuf, 0u);
    // Telemetry must not be queried while ports are being closed, as ethdev demands.
    std::puts("traffic is over");
    std::fflush(stdout);
    (void)std::getchar();
}

} // namespace
} // namespace test
