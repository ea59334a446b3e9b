// SPDX-License-Identifier: BSD-3-Clause
// Receive on mapped mlx5 rings: pools that run short, grow or have pinned buffers, and the lkeys of
// their memory.
#include "tests/unit/rings/growing_pool.hpp"
#include "tests/unit/rings/mlx5_rx.hpp"
#include "tests/unit/rings/pinned_pool.hpp"

#include <set>

namespace rings_test {
namespace {

TEST_P(Mlx5RxReaders, ShortPoolShortensTheRingAndCounts) {
    start({.pool_size = 70}); // 6 spare
    rte_mbuf* held[64];
    for (int i = 0; i < 40; ++i)
        deliver(64);
    ASSERT_EQ(receive(held, 64), 40u);
    EXPECT_EQ(posted(), 24 + 6) << "the pool's last buffers are used";
    EXPECT_EQ(ring->counters.nombuf, 34u);
    rte_mbuf* none[1];
    for (int i = 0; i < 5; ++i)
        ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(ring->counters.nombuf, 34u) << "each missing buffer counts once";

    // No packet is lost in the meantime, and the ring recovers from empty.
    for (int i = 0; i < 30; ++i)
        deliver(64);
    rte_mbuf* more[64];
    ASSERT_EQ(receive(more, 64), 30u);
    EXPECT_EQ(posted(), 0u);
    EXPECT_EQ(ring->counters.nombuf, 64u);
    for (uint32_t i = 0; i < 40; ++i)
        take(held[i], i, 64);
    for (uint32_t i = 0; i < 30; ++i)
        take(more[i], 40 + i, 64);
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(posted(), 64u);
    EXPECT_EQ(ring->counters.nombuf, 64u);
    deliver(64);
    ASSERT_EQ(receive(none, 1), 1u);
    take(none[0], 70, 64);
}

TEST_P(Mlx5RxReaders, ARestartForgetsAShortage) {
    start({.pool_size = 70});
    for (uint64_t shortage = 1; shortage < 3; ++shortage) {
        const uint32_t first = sequence;
        for (int i = 0; i < 40; ++i)
            deliver(64);
        rte_mbuf* held[64];
        ASSERT_EQ(receive(held, 64), 40u);
        EXPECT_EQ(ring->counters.nombuf, 34 * shortage);
        for (uint32_t i = 0; i < 40; ++i)
            take(held[i], first + i, 64);
        rawqp::kMlx5Format.rx_stop(*ring);
        on_reset();
        ASSERT_TRUE(rawqp::kMlx5Format.rx_start(*ring));
    }
}

/// Nothing would ever complete, so nobody may wait for it.
TEST_P(Mlx5RxReaders, NobodySleepsWhileTheRingIsEmpty) {
    start({.pool_size = 64});
    for (int i = 0; i < 64; ++i)
        deliver(64);
    rte_mbuf* held[64];
    ASSERT_EQ(receive(held, 64), 64u);
    ASSERT_EQ(posted(), 0u);
    const auto sleeps = [&] {
        rte_power_monitor_cond condition{};
        EXPECT_EQ(rawqp::kMlx5Format.rx_monitor_addr(ring, &condition), 0);
        return condition.fn(kFreshOpOwn, condition.opaque) == 0;
    };
    EXPECT_FALSE(sleeps());
    EXPECT_EQ(rawqp::kMlx5Format.rx_arm(*ring), EAGAIN);
    rte_pktmbuf_free_bulk(held, 64);
    EXPECT_FALSE(sleeps());
    EXPECT_EQ(rawqp::kMlx5Format.rx_arm(*ring), 0);
    EXPECT_EQ(posted(), 64u) << "arming has filled the ring";
    EXPECT_TRUE(sleeps());
}

/// Buffers from the lcore's cache also end a shortage.
TEST_P(Mlx5RxReaders, EachShortageIsCounted) {
    for (const unsigned cache : {0u, 40u}) {
        start({.pool_size = 70, .cache = cache});
        for (uint64_t shortage = 1; shortage < 4; ++shortage) {
            const uint32_t first = sequence;
            rte_mbuf* held[64];
            for (int i = 0; i < 40; ++i)
                deliver(64);
            ASSERT_EQ(receive(held, 64), 40u);
            EXPECT_EQ(ring->counters.nombuf, 34 * shortage);
            for (uint32_t i = 0; i < 40; ++i)
                take(held[i], first + i, 64);
            ASSERT_EQ(receive(held, 1), 0u);
            EXPECT_GE(posted(), 60u);
        }
        finish();
        spec = {};
        consumed = 0;
    }
}

TEST_P(Mlx5RxReaders, LkeysFollowUnregistration) {
    create({});
    std::vector<rte_mbuf*> all(256);
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool.get(), all.data(), 256), 0);
    mrs.split = reinterpret_cast<uintptr_t>(all[100]->buf_addr);
    rte_pktmbuf_free_bulk(all.data(), 256);
    ASSERT_TRUE(rawqp::kMlx5Format.rx_start(*ring));
    mrs.split = 1; // everything has a different lkey now
    mrs.unregister();
    for (uint32_t i = 0; i < 96; ++i) { // one lap, and what was posted before
        deliver(64);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        take(mbuf, i, 64);
    }
    for (const mlx5::WqeDataSeg& wqe : rq->ring)
        EXPECT_EQ(wqe.lkey, FakeMrs::kLkey + 1);
}

/// What refills assume of a pool as a whole need not hold for mbufs that it gets later.
TEST_P(Mlx5RxReaders, PoolThatGrowsIntoAnotherRegion) {
    for (const unsigned cache : {0u, 64u}) {
        GrowingPool growing(100, cache);
        mrs.split = growing.later_memory();
        start({.own_pool = growing.get()});
        growing.grow();
        std::vector<rte_mbuf*> held;
        uint32_t others = 0;
        for (uint32_t i = 0; i < 140; ++i) {
            deliver(64);
            rte_mbuf* mbuf = nullptr;
            ASSERT_EQ(receive(&mbuf, 1), 1u);
            if (i < 50)
                held.push_back(mbuf);
            else
                take(mbuf, sequence - 1, 64);
            for (const mlx5::WqeDataSeg& wqe : rq->ring) {
                ASSERT_EQ(wqe.lkey, FakeMrs::kLkey + (wqe.addr >= mrs.split ? 1 : 0));
                others += wqe.addr >= mrs.split;
            }
        }
        EXPECT_GT(others, 0u);
        rte_pktmbuf_free_bulk(held.data(), static_cast<unsigned>(held.size()));
        finish();
        spec = {};
        consumed = 0;
        mrs.split = 0;
    }
}

TEST_P(Mlx5RxReaders, PinnedBuffersStayTheirMbufs) {
    const PinnedPool pinned(100);
    start({.own_pool = pinned.get()});
    for (uint32_t i = 0; i < 20; ++i) {
        const uint32_t first = sequence;
        for (int k = 0; k < 11; ++k) // vector loop and single packets
            deliver(64);
        rte_mbuf* mbufs[11];
        ASSERT_EQ(receive(mbufs, 11), 11u);
        for (uint32_t k = 0; k < 11; ++k) {
            ASSERT_TRUE(pinned.owns_buffer_of(mbufs[k]));
            take(mbufs[k], first + k, 64);
        }
    }
    finish();
}

TEST_P(Mlx5RxReaders, PoolInTwoRegionsGetsTheRightLkeys) {
    create({});
    std::vector<rte_mbuf*> all(256);
    ASSERT_EQ(rte_pktmbuf_alloc_bulk(pool.get(), all.data(), 256), 0);
    auto middle = all;
    std::nth_element(middle.begin(), middle.begin() + 128, middle.end());
    mrs.split = reinterpret_cast<uintptr_t>(middle[128]->buf_addr);
    rte_pktmbuf_free_bulk(all.data(), 256);

    ASSERT_TRUE(rawqp::kMlx5Format.rx_start(*ring));
    rte_mbuf* mbufs[64];
    std::set<uint32_t> lkeys;
    for (int round = 0; round < 12; ++round) {
        for (int i = 0; i < 32; ++i)
            deliver(64);
        ASSERT_EQ(receive(mbufs, 32), 32u);
        rte_pktmbuf_free_bulk(mbufs, 32);
        for (const mlx5::WqeDataSeg& wqe : rq->ring) {
            ASSERT_EQ(wqe.lkey, FakeMrs::kLkey + (wqe.addr >= mrs.split ? 1 : 0));
            lkeys.insert(wqe.lkey);
        }
    }
    EXPECT_EQ(lkeys.size(), 2u);
}

} // namespace
} // namespace rings_test
