// SPDX-License-Identifier: BSD-3-Clause
// Receive through verbs calls: broken queues and their recovery.
#include "tests/unit/rings/logged.hpp"
#include "tests/unit/rings/verbs_rx.hpp"

#include <gmock/gmock.h>

namespace rings_test {
namespace {

TEST_F(VerbsRx, ErrorResetsTheQueue) {
    start();
    expect_traffic(37);
    deliver(pattern(1, 64));
    break_queue(IBV_WC_LOC_LEN_ERR);
    rte_mbuf* mbufs[8];
    EXPECT_THAT(logged([&] { ASSERT_EQ(receive(mbufs, 8), 1u); }),
                testing::HasSubstr("completion: length error"));
    rte_pktmbuf_free(mbufs[0]);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(ring->counters.recoveries, 1u);
    EXPECT_TRUE(cq.queue.empty());
    EXPECT_EQ(posted(), 64u);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
    expect_traffic(300);
}

TEST_F(VerbsRx, ShortRingAndEmptyPool) {
    start({.pool_size = 64});
    for (uint32_t i = 0; i < 40; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* held[64];
    ASSERT_EQ(receive(held, 64), 40u);
    break_queue(IBV_WC_LOC_PROT_ERR);
    rte_mbuf* mbufs[8];
    ASSERT_EQ(receive(mbufs, 8), 0u);
    EXPECT_EQ(posted(), 24u) << "all that the ring holds is posted again";
    EXPECT_EQ(ring->counters.nombuf, 40u) << "those that were counted before";
    rte_pktmbuf_free_bulk(held, 40);
    ASSERT_EQ(receive(mbufs, 8), 0u);
    EXPECT_EQ(posted(), 64u);
    EXPECT_EQ(ring->counters.nombuf, 40u);
    expect_traffic(100);
}

TEST_F(VerbsRx, LkeysAreLookedUpAnew) {
    start();
    const auto expect_lkeys = [&](uint32_t lkey) {
        for (size_t i = filled; i < wq.posted.size(); ++i)
            ASSERT_EQ(wq.posted[i].sges[0].lkey, lkey) << i;
    };
    expect_traffic(64);
    mrs.split = 1; // everything has a different lkey now
    break_queue(IBV_WC_LOC_PROT_ERR);
    rte_mbuf* mbufs[8];
    ASSERT_EQ(receive(mbufs, 8), 0u);
    expect_lkeys(FakeMrs::kLkey + 1);
    expect_traffic(64);
    expect_lkeys(FakeMrs::kLkey + 1);
    mrs.split = 0;
    mrs.unregister();
    expect_traffic(80); // nothing is left of what was posted before
    expect_lkeys(FakeMrs::kLkey);
}

TEST_F(VerbsRx, FlushAloneLosesNoPacket) {
    start({.segments = 2, .data_room = 256 + RTE_PKTMBUF_HEADROOM});
    expect_traffic(30, 100);
    break_queue(IBV_WC_WR_FLUSH_ERR);
    rte_mbuf* mbufs[8];
    ASSERT_EQ(receive(mbufs, 8), 0u);
    EXPECT_EQ(ring->counters.errors, 0u);
    expect_traffic(100, 500);
}

TEST_F(VerbsRx, FailingResetLeavesTheQueueDeadForAWhile) {
    start();
    reset_result = -EIO;
    break_queue(IBV_WC_LOC_PROT_ERR);
    rte_mbuf* mbufs[8];
    while (resets < 3)
        ASSERT_EQ(receive(mbufs, 8), 0u);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(ring->counters.recoveries, 0u);
    reset_result = 0;
    while (resets < 4)
        ASSERT_EQ(receive(mbufs, 8), 0u);
    expect_traffic(100);
}

} // namespace
} // namespace rings_test
