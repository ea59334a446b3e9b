// SPDX-License-Identifier: BSD-3-Clause
// A receive queue on fake rings, with a device that fills posted WQEs.
#pragma once

#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mlx5.hpp"
#include "tests/unit/rings/received.hpp"
#include "tests/unit/rings/vector_widths.hpp"
#include "tests/unit/rings/verdict_frames.hpp"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

namespace rings_test {

inline constexpr uint64_t kAllOffloads =
    RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_RSS_HASH;

/// What a test may choose before start().
struct RxSetup {
    rte_mempool* own_pool = nullptr; ///< the test's pool; null: one is created
    uint16_t descriptors = 64;
    uint8_t segments = 1;
    unsigned pool_size = 256;
    uint16_t data_room = RTE_MBUF_DEFAULT_BUF_SIZE;
    uint32_t cq_entries = 64;
    uint64_t offloads = 0;
    bool mark = false;
    bool metadata = false; ///< needs marks
    bool real_time = false;
    bool compressed = false; ///< the CQ may hold blocks of mini CQEs
    unsigned cache = 0;      ///< of the pool, per lcore
};

class Mlx5Rx : public test_eal::EalTest {
  protected:
    /// Selects the reader that the queue gets.
    unsigned simd_bits = kScalar;

    static constexpr uint16_t kPort = 7;
    static constexpr uint16_t kQueue = 3;

    /// Creates and starts the queue.
    void start(const RxSetup& setup = {}) {
        create(setup);
        ASSERT_NE(ring, nullptr);
        const auto started = rawqp::kMlx5Format.rx_start(*ring);
        ASSERT_TRUE(started) << started.error().what;
    }
    void create(const RxSetup& setup) {
        if (setup.own_pool == nullptr) {
            pool = test_eal::make_pool(setup.pool_size, setup.data_room, setup.cache);
            ASSERT_NE(pool, nullptr);
        }
        cq.emplace(setup.cq_entries);
        rq.emplace(setup.descriptors / setup.segments, setup.segments);
        rooms.clear();
        spec.api = &fake_api();
        spec.cq = &cq->handle;
        spec.wq = &rq->handle;
        spec.port_id = kPort;
        spec.queue_id = kQueue;
        spec.descriptors = setup.descriptors;
        spec.segments = setup.segments;
        spec.offloads = setup.offloads;
        spec.compressed = setup.compressed;
        spec.real_time = setup.real_time;
        spec.active_simd_bits = simd_bits;
        spec.pool = setup.own_pool != nullptr ? setup.own_pool : pool.get();
        spec.mrs = &mrs.table;
        const auto created = rawqp::kMlx5Format.rx_create(spec);
        ASSERT_TRUE(created) << created.error().what;
        ring = *created;
        ring->tell_all = setup.mark;
        if (setup.metadata) ask_for_metadata(*ring);
        mrs.on_reset = [this] { return on_reset(); };
        burst = rawqp::kMlx5Format.rx_burst(spec);
    }

    /// Stops the queue and checks that every mbuf is back in the pool.
    void TearDown() override { finish(); }
    void finish() {
        if (ring == nullptr) return;
        rawqp::kMlx5Format.rx_stop(*ring);
        rawqp::kMlx5Format.rx_destroy(ring);
        ring = nullptr;
        EXPECT_EQ(rte_mempool_in_use_count(spec.pool), 0u);
    }

    /// The control path's part of a recovery: the device forgets its indices and the doorbell
    /// record is cleared.
    int on_reset() {
        ++resets;
        if (reset_result != 0) return reset_result;
        rq->doorbell.receive = 0;
        consumed = 0;
        return 0;
    }

    /// `next` receives a packet with such a CQE. Its stamp follows the kernel's clock.
    template <class Next> static void expect_real_time(Next next) {
        mlx5::Cqe cqe{};
        cqe.timestamp = 0x8000'1234;
        const auto expect_now = [&] {
            rte_mbuf* const mbuf = next(cqe);
            ASSERT_NE(mbuf, nullptr);
            const int offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
            EXPECT_EQ(*RTE_MBUF_DYNFIELD(mbuf, offset, uint64_t*),
                      mlx5dv_ts_to_ns(&fake_clock, cqe.timestamp));
            rte_pktmbuf_free(mbuf);
        };
        expect_now();
        const mlx5dv_clock_info before = fake_clock;
        fake_clock.nsec += 1'000'000'000; // somebody sets the PTP hardware clock
        rte_delay_us_block(11'000);       // bursts look at it a hundred times a second
        expect_now();
        fake_clock = before;
    }

    /// The device fails the next WQE and flushes the others.
    void break_queue(mlx5::CqeSyndrome syndrome) {
        cq->write_error(mlx5::CqeOpcode::resp_error, syndrome, consumed++);
        while (posted() > 0)
            cq->write_error(mlx5::CqeOpcode::resp_error, mlx5::CqeSyndrome::flushed, consumed++);
    }

    [[nodiscard]] uint16_t posted() const {
        return static_cast<uint16_t>(rq->doorbell.receive - consumed);
    }

    /// Scatters `bytes` bytes of a pattern into the next posted WQE and completes it with `cqe`.
    void deliver(uint32_t bytes, mlx5::Cqe cqe = {}) {
        fill(bytes);
        cqe.byte_count = bytes;
        cqe.wqe_counter = consumed++;
        cq->write(cqe, mlx5::CqeOpcode::resp_send);
    }
    /// One packet per mini CQE, all completed in one block.
    void deliver_block(const mlx5::Cqe& title, const std::vector<mlx5::MiniCqe>& minis) {
        for (const mlx5::MiniCqe& mini : minis) {
            fill(mini.byte_count);
            ++consumed;
        }
        cq->write_block(title, minis);
    }
    /// The same with a frame given by the test.
    void deliver(const Bytes& frame, mlx5::Cqe cqe) {
        own_frame = &frame;
        deliver(static_cast<uint32_t>(frame.size()), cqe);
        own_frame = nullptr;
    }
    /// `count` copies of such a frame, completed in one block.
    void deliver_block(const mlx5::Cqe& title, const Bytes& frame, size_t count) {
        own_frame = &frame;
        deliver_block(title,
                      std::vector(count, mlx5::MiniCqe{0, static_cast<uint32_t>(frame.size())}));
        own_frame = nullptr;
    }
    void fill(uint32_t bytes) {
        ASSERT_GT(posted(), 0u);
        if (rooms.empty())
            for (const mlx5::WqeDataSeg& segment : rq->ring)
                rooms.push_back(segment.byte_count);
        const uint32_t slot = consumed % rq->wqes();
        uint32_t at = 0;
        for (uint32_t i = 0; i < rq->segments_per_wqe && at < bytes; ++i) {
            const uint32_t index = slot * rq->segments_per_wqe + i;
            const mlx5::WqeDataSeg& segment = rq->ring[index];
            ASSERT_EQ(segment.lkey & ~1u, FakeMrs::kLkey);
            ASSERT_EQ(segment.byte_count, rooms[index]);
            auto* to = reinterpret_cast<uint8_t*>(uint64_t{segment.addr});
            for (uint32_t n = std::min<uint32_t>(segment.byte_count, bytes - at); n > 0; --n, ++at)
                *to++ = content(at);
        }
        ASSERT_EQ(at, bytes) << "does not fit in the WQE";
        ++sequence;
    }
    /// Byte `at` of the packet being received.
    [[nodiscard]] uint8_t content(uint32_t at) const {
        return own_frame != nullptr ? (*own_frame)[at] : pattern(sequence, at);
    }
    static uint8_t pattern(uint32_t packet, uint32_t offset) {
        return static_cast<uint8_t>(packet * 31 + offset * 7 + (offset >> 8));
    }
    /// Checks that `mbuf` is packet number `packet` with `bytes` bytes, and frees it as
    /// applications do: with fields set that the next packet must not inherit.
    void take(rte_mbuf* mbuf, uint32_t packet, uint32_t bytes) {
        ASSERT_EQ(mbuf->pkt_len, bytes);
        ASSERT_EQ(mbuf->port, kPort);
        uint32_t at = 0;
        unsigned segments = 0;
        for (rte_mbuf* segment = mbuf; segment != nullptr; segment = segment->next) {
            ++segments;
            ASSERT_EQ(rte_mbuf_refcnt_read(segment), 1);
            if (segment != mbuf) {
                ASSERT_EQ(segment->ol_flags, 0u);
                ASSERT_EQ(segment->port, kPort);
            }
            segment->ol_flags |= RTE_MBUF_F_TX_VLAN;
            segment->port = 0;
            const auto* data = rte_pktmbuf_mtod(segment, const uint8_t*);
            for (uint32_t i = 0; i < segment->data_len; ++i, ++at)
                ASSERT_EQ(data[i], pattern(packet, at)) << "packet " << packet << " byte " << at;
        }
        ASSERT_EQ(at, bytes);
        ASSERT_EQ(mbuf->nb_segs, segments);
        rte_pktmbuf_free(mbuf);
    }
    /// Takes and frees what has arrived: consecutive packets, up to the last one delivered.
    void take_the_rest(uint16_t at_least, uint32_t bytes) {
        rte_mbuf* got[64];
        const uint16_t count = receive(got, 64);
        ASSERT_GE(count, at_least);
        for (uint16_t i = 0; i < count; ++i)
            take(got[i], sequence - count + i, bytes);
    }
    uint16_t receive(rte_mbuf** mbufs, uint16_t count) {
        return burst.function(ring, mbufs, count);
    }
    rte_mbuf* receive_one() {
        rte_mbuf* mbuf = nullptr;
        EXPECT_EQ(receive(&mbuf, 1), 1u);
        return mbuf;
    }

    FakeMrs mrs;
    test_eal::Pool pool;
    std::optional<FakeCq> cq;
    std::optional<FakeRq> rq;
    rawqp::RxSpec spec;
    rawqp::RxRing* ring = nullptr;
    rawqp::Burst<eth_rx_burst_t> burst;
    uint16_t consumed = 0;       ///< WQEs that the device has used
    uint32_t sequence = 0;       ///< packets delivered
    std::vector<uint32_t> rooms; ///< byte counts of the WQEs before the first packet
    const Bytes* own_frame = nullptr;
    int resets = 0;
    int reset_result = 0;
};

/// The same for each reader that this CPU supports.
class Mlx5RxReaders : public Mlx5Rx, public testing::WithParamInterface<unsigned> {
  protected:
    void SetUp() override {
        simd_bits = GetParam();
        SKIP_WITHOUT_VECTORS(simd_bits);
    }
};

} // namespace rings_test
