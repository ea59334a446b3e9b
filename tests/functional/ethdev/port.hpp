// SPDX-License-Identifier: BSD-3-Clause
// Port 0 as an application uses it: only through the public ethdev API. Its wire is a loop, so that
// whatever is sent comes back.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <string>
#include <vector>

namespace test {

using Frame = std::vector<uint8_t>;

inline constexpr uint16_t kPort = 0;
inline constexpr uint16_t kQueues = 2;
inline constexpr uint16_t kDescriptors = 64;
inline constexpr uint16_t kTestType = 0x88b5; // an EtherType for local experiments

/// A new name for a pool or memzone.
[[nodiscard]] std::string unique_name();
/// A pool without cache, so that its counts are exact. Null on failure.
[[nodiscard]] rte_mempool* make_pool(unsigned count);

/// Calls `done` until it returns true or the time is up.
template <class Done> bool wait(unsigned milliseconds, Done&& done) {
    const uint64_t end = rte_get_tsc_cycles() + rte_get_tsc_hz() / 1000 * milliseconds;
    while (!done())
        if (rte_get_tsc_cycles() > end) return false;
    return true;
}

/// The port, started with two queues each way. Its Rx pool exists as long as the process.
class PortTest : public testing::Test {
  protected:
    void SetUp() override { ASSERT_NO_FATAL_FAILURE(start(rx_pool())); }
    void TearDown() override { EXPECT_EQ(rte_eth_dev_stop(kPort), 0); }

    /// (Re-)configures and starts the port with this pool for its Rx queues.
    void start(rte_mempool* pool, uint64_t rx_offloads = 0);
    void start(rte_mempool* pool, const rte_eth_conf& conf);
    void restart();
    [[nodiscard]] static rte_mempool* rx_pool();

    /// A frame from the port to itself.
    [[nodiscard]] static Frame frame(uint8_t seed, size_t size = 200,
                                     uint16_t ether_type = kTestType);
    /// An mbuf of `pool` with this content; null if the pool is empty.
    [[nodiscard]] static rte_mbuf* mbuf_of(rte_mempool* pool, const Frame& content);
    /// Sends from Tx queue 0; false if the queue accepts nothing for ten seconds.
    [[nodiscard]] static bool send(rte_mbuf* packet);
    /// The next packet from an Rx queue; null if none arrives in time. The caller frees it.
    [[nodiscard]] static rte_mbuf* receive(uint16_t queue = 0, unsigned milliseconds = 10000);
    [[nodiscard]] static Frame content_of(const rte_mbuf* packet);

    /// `count` frames in mbufs of `pool` come back unchanged.
    static void expect_round_trips(rte_mempool* pool, unsigned count);
    [[nodiscard]] static rte_eth_stats stats();
    /// What `write(file)` writes.
    template <class Write> [[nodiscard]] static std::string written(Write write) {
        char* text = nullptr;
        size_t size = 0;
        FILE* const file = open_memstream(&text, &size);
        EXPECT_EQ(write(file), 0);
        fclose(file);
        std::string copy(text, size);
        std::free(text);
        return copy;
    }
    [[nodiscard]] static std::string dump() {
        return written([](FILE* file) { return rte_eth_dev_priv_dump(kPort, file); });
    }
};

} // namespace test
