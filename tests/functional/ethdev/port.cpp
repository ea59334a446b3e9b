// SPDX-License-Identifier: BSD-3-Clause
#include "tests/functional/ethdev/port.hpp"

#include <cstring>
#include <rte_errno.h>

namespace test {
namespace {

constexpr unsigned kRxMbufs = 4 * kQueues * kDescriptors;

} // namespace

std::string unique_name() {
    static unsigned serial = 0;
    return "test" + std::to_string(serial++);
}

rte_mempool* make_pool(unsigned count) {
    return rte_pktmbuf_pool_create(unique_name().c_str(), count, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
                                   SOCKET_ID_ANY);
}

rte_mempool* PortTest::rx_pool() {
    static rte_mempool* const pool = make_pool(kRxMbufs);
    return pool;
}

void PortTest::start(rte_mempool* pool, uint64_t rx_offloads) {
    rte_eth_conf conf{};
    conf.rxmode.mtu = RTE_ETHER_MTU;
    conf.rxmode.offloads = rx_offloads;
    start(pool, conf);
}

void PortTest::start(rte_mempool* pool, const rte_eth_conf& conf) {
    ASSERT_NE(pool, nullptr) << rte_strerror(rte_errno);
    ASSERT_EQ(rte_eth_dev_configure(kPort, kQueues, kQueues, &conf), 0);
    for (uint16_t queue = 0; queue < kQueues; ++queue) {
        ASSERT_EQ(rte_eth_rx_queue_setup(kPort, queue, kDescriptors, SOCKET_ID_ANY, nullptr, pool),
                  0);
        ASSERT_EQ(rte_eth_tx_queue_setup(kPort, queue, kDescriptors, SOCKET_ID_ANY, nullptr), 0);
    }
    ASSERT_EQ(rte_eth_dev_start(kPort), 0);
    rte_eth_stats_reset(kPort);
}

void PortTest::restart() {
    ASSERT_EQ(rte_eth_dev_stop(kPort), 0);
    ASSERT_EQ(rte_eth_dev_start(kPort), 0);
}

Frame PortTest::frame(uint8_t seed, size_t size, uint16_t ether_type) {
    Frame content(size);
    rte_ether_addr mac;
    EXPECT_EQ(rte_eth_macaddr_get(kPort, &mac), 0);
    std::memcpy(content.data(), mac.addr_bytes, sizeof mac.addr_bytes);
    std::memcpy(content.data() + 6, mac.addr_bytes, sizeof mac.addr_bytes);
    content[12] = static_cast<uint8_t>(ether_type >> 8);
    content[13] = static_cast<uint8_t>(ether_type);
    for (size_t i = 14; i < size; ++i)
        content[i] = static_cast<uint8_t>(seed + 7 * i);
    return content;
}

rte_mbuf* PortTest::mbuf_of(rte_mempool* pool, const Frame& content) {
    rte_mbuf* const packet = rte_pktmbuf_alloc(pool);
    if (packet == nullptr) return nullptr;
    char* const to = rte_pktmbuf_append(packet, static_cast<uint16_t>(content.size()));
    std::memcpy(to, content.data(), content.size());
    return packet;
}

bool PortTest::send(rte_mbuf* packet) {
    return wait(10000, [&] { return rte_eth_tx_burst(kPort, 0, &packet, 1) == 1; });
}

rte_mbuf* PortTest::receive(uint16_t queue, unsigned milliseconds) {
    rte_mbuf* packet = nullptr;
    wait(milliseconds, [&] { return rte_eth_rx_burst(kPort, queue, &packet, 1) == 1; });
    return packet;
}

Frame PortTest::content_of(const rte_mbuf* packet) {
    const auto* const from = rte_pktmbuf_mtod(packet, const uint8_t*);
    return {from, from + packet->data_len};
}

void PortTest::expect_round_trips(rte_mempool* pool, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        const Frame content = frame(static_cast<uint8_t>(i), 60 + i % 1000);
        rte_mbuf* const packet = mbuf_of(pool, content);
        ASSERT_NE(packet, nullptr) << "frame " << i;
        ASSERT_TRUE(send(packet)) << "frame " << i;
        rte_mbuf* const back = receive();
        ASSERT_NE(back, nullptr) << "frame " << i << " did not come back";
        EXPECT_EQ(content_of(back), content);
        rte_pktmbuf_free(back);
    }
}

rte_eth_stats PortTest::stats() {
    rte_eth_stats now{};
    EXPECT_EQ(rte_eth_stats_get(kPort, &now), 0);
    return now;
}

} // namespace test
