// SPDX-License-Identifier: BSD-3-Clause
// A send queue of either ring format, and packets for it.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mrs.hpp"
#include "tests/unit/rings/packets.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace rings_test {

class TxRingTest : public test_eal::EalTest {
  protected:
    explicit TxRingTest(const rawqp::RingFormat& format) : format_(format) {
        mrs.on_reset = [this] { return on_reset(); };
    }
    /// Creates the queue that `spec` describes.
    void start_ring() {
        spec.mrs = &mrs.table;
        const auto created = format_.tx_create(spec);
        ASSERT_TRUE(created) << created.error().what;
        ring = *created;
        burst = format_.tx_burst(spec);
        format_.tx_start(*ring);
    }
    void TearDown() override {
        if (ring == nullptr) return;
        format_.tx_stop(*ring);
        format_.tx_destroy(ring);
        EXPECT_EQ(in_use(), 0u);
    }
    /// The control path's part of a recovery.
    int on_reset() {
        ++resets;
        if (reset_result == 0) forget();
        return reset_result;
    }
    /// The device forgets its indices and what was posted.
    virtual void forget() = 0;
    /// Stops and restarts the queue. In between there is nothing to clean up: completions from
    /// before the stop concern mbufs that are gone, and must not make it reset its QP, which would
    /// start it.
    void stop_look_and_start() {
        format_.tx_stop(*ring);
        const rawqp::TxCounters before = ring->counters;
        reset_result = resets = 0;
        EXPECT_EQ(format_.tx_done_cleanup(ring, 0), 0);
        EXPECT_EQ(format_.tx_descriptor_status(ring, 63), RTE_ETH_TX_DESC_DONE);
        EXPECT_EQ(in_use(), 0u);
        EXPECT_EQ(resets, 0);
        EXPECT_EQ(ring->counters.packets, before.packets);
        EXPECT_EQ(ring->counters.errors, before.errors);
        forget();
        format_.tx_start(*ring);
    }

    rte_mbuf* packet(uint32_t seed, const std::vector<uint16_t>& lengths) {
        return make_packet(pool.get(), seed, lengths);
    }
    static std::vector<uint8_t> expected(uint32_t seed, uint32_t bytes) {
        std::vector<uint8_t> out(bytes);
        for (uint32_t i = 0; i < bytes; ++i)
            out[i] = tx_pattern(seed, i);
        return out;
    }
    uint16_t send(rte_mbuf** packets, uint16_t count) {
        return burst.function(ring, packets, count);
    }
    uint16_t send(std::vector<rte_mbuf*> packets) {
        return send(packets.data(), static_cast<uint16_t>(packets.size()));
    }
    [[nodiscard]] unsigned in_use() const { return rte_mempool_in_use_count(pool.get()); }

    FakeMrs mrs;
    test_eal::Pool pool = test_eal::make_pool(512);
    rawqp::TxSpec spec;
    rawqp::TxRing* ring = nullptr;
    rawqp::Burst<eth_tx_burst_t> burst;
    int completions = 0;
    int resets = 0;
    int reset_result = 0;

  private:
    const rawqp::RingFormat& format_;
};

} // namespace rings_test
