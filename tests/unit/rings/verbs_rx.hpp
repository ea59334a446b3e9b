// SPDX-License-Identifier: BSD-3-Clause
// The fixture for tests that receive through verbs calls.
#pragma once

#include "drivers/net/rawqp/rings/verbs/format.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mrs.hpp"
#include "tests/unit/rings/verdict_frames.hpp"
#include "tests/unit/verbs/queues.hpp"

#include <utility>
#include <vector>

namespace rings_test {

using namespace verbs_test;

struct VerbsRxSetup {
    uint8_t segments = 1;
    unsigned pool_size = 256;
    uint16_t data_room = RTE_MBUF_DEFAULT_BUF_SIZE;
    uint64_t offloads = 0;
    bool mark = false;
    unsigned cache = 0; ///< of the pool, per lcore
};

class VerbsRx : public test_eal::EalTest {
  protected:
    static constexpr uint16_t kDescriptors = 64;
    static constexpr uint16_t kPort = 5;

    void create(const VerbsRxSetup& setup) {
        pool = test_eal::make_pool(setup.pool_size, setup.data_room, setup.cache);
        ASSERT_NE(pool, nullptr);
        spec.cq = &cq.handle;
        spec.wq = &wq.handle;
        spec.port_id = kPort;
        spec.descriptors = kDescriptors;
        spec.segments = setup.segments;
        spec.offloads = setup.offloads;
        spec.pool = pool.get();
        spec.mrs = &mrs.table;
        const auto created = rawqp::kVerbsFormat.rx_create(spec);
        ASSERT_TRUE(created) << created.error().what;
        ring = *created;
        ring->tell_all = setup.mark;
        mrs.on_reset = [this] { return on_reset(); };
        burst = rawqp::kVerbsFormat.rx_burst(spec);
    }
    void start(const VerbsRxSetup& setup = {}) {
        create(setup);
        const auto started = rawqp::kVerbsFormat.rx_start(*ring);
        ASSERT_TRUE(started) << started.error().what;
    }
    /// Stops and destroys the ring.
    void end() {
        rawqp::kVerbsFormat.rx_stop(*ring);
        rawqp::kVerbsFormat.rx_destroy(std::exchange(ring, nullptr));
        wq.posted.clear();
        filled = 0;
    }
    void TearDown() override {
        if (ring == nullptr) return;
        end();
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        EXPECT_EQ(cq.misuse, 0);
        EXPECT_FALSE(cq.open);
    }
    int on_reset() {
        ++resets;
        if (reset_result != 0) return reset_result;
        wq.posted.clear();
        filled = 0;
        return 0;
    }
    [[nodiscard]] size_t posted() const { return wq.posted.size() - filled; }

    /// Scatters the frame into the oldest posted request and completes it.
    void deliver(const Bytes& frame, Completion completion = {}) {
        ASSERT_GT(posted(), 0u);
        const auto& request = wq.posted[filled++];
        size_t at = 0;
        for (const ibv_sge& sge : request.sges) {
            ASSERT_EQ(sge.lkey & ~1u, FakeMrs::kLkey);
            const size_t part = std::min<size_t>(sge.length, frame.size() - at);
            if (part > 0) memcpy(reinterpret_cast<void*>(sge.addr), &frame[at], part);
            at += part;
        }
        ASSERT_EQ(at, frame.size());
        completion.wr_id = request.request.wr_id;
        completion.bytes = static_cast<uint32_t>(frame.size());
        cq.queue.push_back(completion);
    }
    void break_queue(ibv_wc_status status) {
        for (; posted() > 0; status = IBV_WC_WR_FLUSH_ERR)
            cq.queue.push_back({.wr_id = wq.posted[filled++].request.wr_id, .status = status});
    }
    uint16_t receive(rte_mbuf** mbufs, uint16_t count) {
        return burst.function(ring, mbufs, count);
    }
    /// Receives one packet, checks and frees it; returns its flags and packet type.
    std::pair<uint64_t, uint32_t> receive_one(const Bytes& frame) {
        rte_mbuf* mbuf = nullptr;
        EXPECT_EQ(receive(&mbuf, 1), 1u);
        if (mbuf == nullptr) return {};
        EXPECT_EQ(contents(mbuf), frame);
        EXPECT_EQ(mbuf->port, kPort);
        last_mark = mbuf->hash.fdir.hi;
        const std::pair result{mbuf->ol_flags, mbuf->packet_type};
        rte_pktmbuf_free(mbuf);
        return result;
    }
    static Bytes contents(const rte_mbuf* mbuf) {
        Bytes out(mbuf->pkt_len);
        const void* data = rte_pktmbuf_read(mbuf, 0, mbuf->pkt_len, out.data());
        if (data != nullptr && data != out.data()) memcpy(out.data(), data, out.size());
        return out;
    }
    static Bytes pattern(uint32_t seed, size_t bytes) {
        Bytes out(bytes);
        for (size_t i = 0; i < bytes; ++i)
            out[i] = static_cast<uint8_t>(seed * 31 + i * 7 + (i >> 8));
        return out;
    }
    void expect_traffic(uint32_t packets, size_t bytes = 64) {
        for (uint32_t i = 0; i < packets; ++i) {
            deliver(pattern(i, bytes));
            receive_one(pattern(i, bytes));
        }
    }

    FakeMrs mrs;
    FakeVerbsCq cq;
    FakeVerbsWq wq;
    test_eal::Pool pool;
    rawqp::RxSpec spec;
    rawqp::RxRing* ring = nullptr;
    rawqp::Burst<eth_rx_burst_t> burst;
    size_t filled = 0; ///< posted requests that the device has used
    uint32_t last_mark = 0;
    int resets = 0;
    int reset_result = 0;
};

} // namespace rings_test
