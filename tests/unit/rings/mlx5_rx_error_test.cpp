// SPDX-License-Identifier: BSD-3-Clause
// Receive on mapped mlx5 rings: error CQEs and recovery.
#include "tests/unit/rings/logged.hpp"
#include "tests/unit/rings/mlx5_rx.hpp"

namespace rings_test {
namespace {

using mlx5::CqeSyndrome;

class Mlx5RxError : public Mlx5RxReaders {
  protected:
    void expect_traffic(uint32_t packets, uint32_t bytes) {
        rte_mbuf* mbufs[32];
        while (packets > 0) {
            const uint32_t first = sequence;
            const uint16_t count = static_cast<uint16_t>(std::min(packets, 20u));
            for (uint16_t i = 0; i < count; ++i)
                deliver(bytes);
            ASSERT_EQ(receive(mbufs, 32), count);
            for (uint16_t i = 0; i < count; ++i)
                take(mbufs[i], first + i, bytes);
            packets -= count;
        }
    }
};

TEST_P(Mlx5RxError, QueueIsResetAndGoesOn) {
    start();
    expect_traffic(37, 64); // the failing slot is in the middle of the ring
    for (int i = 0; i < 3; ++i)
        deliver(64);
    break_queue(CqeSyndrome::local_length);
    rte_mbuf* mbufs[32];
    ASSERT_EQ(receive(mbufs, 32), 3u) << "what came before the error is delivered";
    for (uint32_t i = 0; i < 3; ++i)
        take(mbufs[i], 37 + i, 64);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(ring->counters.recoveries, 1u);
    EXPECT_EQ(posted(), 61u) << "the ring keeps its buffers, that of the failed WQE too";
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 61u);
    EXPECT_EQ(cq->doorbell.consumer, cq->producer) << "flush completions are gone";
    expect_traffic(500, 64);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(resets, 1);
}

TEST_P(Mlx5RxError, FlushAloneLosesNoPacket) {
    start();
    break_queue(CqeSyndrome::flushed);
    rte_mbuf* mbufs[4];
    const std::string log = logged([&] { ASSERT_EQ(receive(mbufs, 4), 0u); });
    EXPECT_NE(log.find("completion: flushed"), std::string::npos) << log;
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.errors, 0u);
    expect_traffic(100, 64);
}

TEST_P(Mlx5RxError, ShortRingAndEmptyPool) {
    start({.pool_size = 64});
    for (int i = 0; i < 30; ++i)
        deliver(64);
    rte_mbuf* held[32];
    ASSERT_EQ(receive(held, 32), 30u);
    ASSERT_EQ(posted(), 34u);
    break_queue(CqeSyndrome::local_protection);
    rte_mbuf* mbufs[4];
    ASSERT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(posted(), 34u) << "all that the ring holds is posted again";
    ASSERT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(ring->counters.nombuf, 30u) << "those that were counted before";
    for (uint32_t i = 0; i < 30; ++i)
        take(held[i], i, 64);
    ASSERT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(posted(), 64u);
    expect_traffic(200, 64);
}

TEST_P(Mlx5RxError, LkeysAreLookedUpAnew) {
    start();
    mrs.split = 1; // everything has a different lkey now
    break_queue(CqeSyndrome::local_protection);
    rte_mbuf* mbufs[4];
    ASSERT_EQ(receive(mbufs, 4), 0u);
    for (const mlx5::WqeDataSeg& wqe : rq->ring)
        EXPECT_EQ(wqe.lkey, FakeMrs::kLkey + 1);
    expect_traffic(100, 64);
}

TEST_P(Mlx5RxError, MemoryGoneMeansAnEmptyRingUntilItIsBack) {
    start();
    mrs.refuse = true;
    break_queue(CqeSyndrome::local_protection);
    rte_mbuf* mbufs[4];
    ASSERT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(posted(), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
    mrs.refuse = false;
    ASSERT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(posted(), 64u);
    expect_traffic(100, 64);
}

TEST_P(Mlx5RxError, FailingResetIsTriedOncePerMillisecond) {
    start();
    reset_result = -EIO;
    break_queue(CqeSyndrome::local_length);
    rte_mbuf* mbufs[4];
    const uint64_t begin = rte_get_tsc_cycles();
    int bursts = 0;
    while (resets < 4) {
        ASSERT_EQ(receive(mbufs, 4), 0u);
        ++bursts;
    }
    const double milliseconds = static_cast<double>(rte_get_tsc_cycles() - begin) * 1e3 /
                                static_cast<double>(rte_get_tsc_hz());
    EXPECT_GE(milliseconds, 3.0);
    EXPECT_GT(bursts, 4);
    EXPECT_EQ(ring->counters.errors, 1u) << "one packet, however many tries";
    EXPECT_EQ(ring->counters.recoveries, 0u);
    reset_result = 0;
    while (resets < 5)
        ASSERT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(ring->counters.recoveries, 1u);
    expect_traffic(100, 64);
}

TEST_P(Mlx5RxError, Scattered) {
    start({.descriptors = 256,
           .segments = 4,
           .pool_size = 300,
           .data_room = 256 + RTE_PKTMBUF_HEADROOM});
    expect_traffic(45, 700);
    expect_traffic(5, 60); // leaves slots that have only some of their buffers
    const unsigned held = rte_mempool_in_use_count(pool.get());
    break_queue(CqeSyndrome::local_length);
    rte_mbuf* mbufs[4];
    ASSERT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(resets, 1);
    EXPECT_GE(rte_mempool_in_use_count(pool.get()), held);
    expect_traffic(200, 1000);
}

TEST_P(Mlx5RxError, StopWhileDead) {
    start();
    reset_result = -EIO;
    break_queue(CqeSyndrome::local_length);
    rte_mbuf* mbufs[4];
    ASSERT_EQ(receive(mbufs, 4), 0u);
    rawqp::kMlx5Format.rx_stop(*ring);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
    reset_result = 0;
    rq->doorbell = {};
    consumed = 0;
    ASSERT_TRUE(rawqp::kMlx5Format.rx_start(*ring));
    expect_traffic(100, 64);
}

INSTANTIATE_TEST_SUITE_P(Readers, Mlx5RxError, testing::ValuesIn(kWidths), kByWidth);

} // namespace
} // namespace rings_test
