// SPDX-License-Identifier: BSD-3-Clause
// Send on mapped mlx5 rings: error CQEs and recovery.
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "tests/unit/rings/mlx5_tx.hpp"

#include <utility>

namespace rings_test {
namespace {

using mlx5::CqeOpcode;
using mlx5::CqeSyndrome;

class Mlx5TxError : public Mlx5Tx {
  protected:
    std::vector<rte_mbuf*> packets(uint32_t count, uint16_t bytes = 64) {
        std::vector<rte_mbuf*> out;
        for (uint32_t i = 0; i < count; ++i)
            out.push_back(packet(i, {bytes}));
        return out;
    }
    void expect_traffic(uint32_t bursts) {
        for (uint32_t round = 0; round < bursts; ++round) {
            ASSERT_EQ(send(packets(20)), 20u);
            for (uint32_t i = 0; i < 20; ++i)
                ASSERT_EQ(execute(), expected(i, 64));
        }
    }
};

TEST_F(Mlx5TxError, LostPacketsAreCountedAndTheQueueGoesOn) {
    start();
    expect_traffic(7); // to somewhere in the middle of the ring
    const uint64_t before = ring->counters.packets;
    ASSERT_EQ(send(packets(30, 100)), 30u);
    for (int i = 0; i < 12; ++i)
        execute();
    break_queue(CqeSyndrome::local_protection);

    ASSERT_EQ(send(packets(1)), 1u);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.recoveries, 1u);
    EXPECT_EQ(ring->counters.errors, 18u);
    EXPECT_EQ(ring->counters.packets, before + 12 + 1);
    EXPECT_EQ(ring->counters.bytes, before * 64 + 12 * 100 + 64);
    EXPECT_EQ(in_use(), 1u);
    EXPECT_EQ(sq->doorbell.send, 1u) << "indices start over";
    EXPECT_EQ(cq->doorbell.consumer, cq->producer) << "flush completions are gone";
    EXPECT_EQ(execute(), expected(0, 64));
    expect_traffic(50);
    EXPECT_EQ(ring->counters.errors, 18u);
}

TEST_F(Mlx5TxError, WqeInsideABurstFails) {
    start();
    ASSERT_EQ(send(packets(3)), 3u);
    execute(); // sent, although no completion will report it
    break_queue(CqeSyndrome::local_qp_operation);
    ASSERT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.errors, 2u);
    EXPECT_EQ(ring->counters.packets, 1u);
    EXPECT_EQ(in_use(), 0u);
}

TEST_F(Mlx5TxError, PacketsOfSeveralWqebbsAreToldApart) {
    start();
    ASSERT_EQ(send({packet(0, {20, 20, 20, 20, 20}), packet(1, {64}), packet(2, {20, 20, 20}),
                    packet(3, {64})}),
              4u);
    execute();
    execute();
    break_queue(CqeSyndrome::local_protection);
    ASSERT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(ring->counters.packets, 2u);
    EXPECT_EQ(ring->counters.bytes, 164u);
    EXPECT_EQ(ring->counters.errors, 2u);
    EXPECT_EQ(in_use(), 0u);
}

/// A killed process may have posted WQEs without noting their mbufs, whose slots are empty then.
TEST_F(Mlx5TxError, WqesWhoseMbufsWereNotNoted) {
    start();
    ASSERT_EQ(send(packets(5)), 5u);
    rawqp::TxMbufs& mbufs = static_cast<rawqp::mlx5rings::MlxTxRing*>(ring)->mbufs;
    mbufs.set_head(3);
    for (const uint16_t unknown : {3, 4})
        rte_pktmbuf_free(std::exchange(mbufs.slot(unknown), nullptr));
    for (int i = 0; i < 4; ++i)
        execute();
    break_queue(CqeSyndrome::local_protection); // of the last, past a WQE without an mbuf
    ASSERT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.errors, 0u) << "those noted were sent";
    EXPECT_EQ(in_use(), 0u);
    expect_traffic(20);
}

TEST_F(Mlx5TxError, FullRing) {
    start();
    ASSERT_EQ(send(packets(64)), 64u);
    break_queue(CqeSyndrome::local_protection);
    ASSERT_EQ(send(packets(64)), 64u);
    EXPECT_EQ(ring->counters.errors, 64u);
    EXPECT_EQ(ring->counters.packets, 64u);
    execute_all();
    expect_traffic(20);
}

/// A stale lkey may be what broke the queue.
TEST_F(Mlx5TxError, LkeysAreLookedUpAnew) {
    for (const bool multi_packet : {false, true}) {
        start({.multi_packet = multi_packet});
        ASSERT_EQ(send(packets(5)), 5u);
        mrs.split = 1; // everything has a different lkey now
        break_queue(CqeSyndrome::local_protection);
        ASSERT_EQ(send(packets(5)), 5u);
        EXPECT_EQ(ring->counters.recoveries, 1u);
        for (uint32_t i = 0; i < 5; ++i)
            EXPECT_EQ(execute(), expected(i, 64)); // also checks the lkey
        mrs.split = 0;
        TearDown();
        ring = nullptr;
    }
}

TEST_F(Mlx5TxError, FailingResetIsTriedOncePerMillisecond) {
    start();
    ASSERT_EQ(send(packets(20)), 20u);
    break_queue(CqeSyndrome::local_protection);
    reset_result = -EIO;
    auto kept = packets(1);
    const uint64_t begin = rte_get_tsc_cycles();
    int bursts = 0;
    while (resets < 4) {
        ASSERT_EQ(send(kept), 0u) << "a dead queue takes nothing";
        ++bursts;
    }
    const double milliseconds = static_cast<double>(rte_get_tsc_cycles() - begin) * 1e3 /
                                static_cast<double>(rte_get_tsc_hz());
    EXPECT_GE(milliseconds, 3.0);
    EXPECT_GT(bursts, 4);
    EXPECT_EQ(ring->counters.errors, 20u) << "counted once";
    EXPECT_EQ(ring->counters.packets, 0u);
    EXPECT_EQ(in_use(), 1u);
    EXPECT_EQ(rawqp::kMlx5Format.tx_descriptor_status(ring, 0), RTE_ETH_TX_DESC_UNAVAIL);
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 0), 0);
    reset_result = 0;
    while (send(kept) == 0)
        ;
    EXPECT_EQ(ring->counters.recoveries, 1u);
    EXPECT_EQ(execute(), expected(0, 64));
    expect_traffic(20);
}

TEST_F(Mlx5TxError, StopWhileDead) {
    start();
    ASSERT_EQ(send(packets(20)), 20u);
    break_queue(CqeSyndrome::local_protection);
    reset_result = -EIO;
    ASSERT_EQ(send(nullptr, 0), 0u);
    rawqp::kMlx5Format.tx_stop(*ring);
    EXPECT_EQ(in_use(), 0u);
    reset_result = 0;
    sq->doorbell = {};
    executed = 0;
    rawqp::kMlx5Format.tx_start(*ring);
    expect_traffic(20);
}

TEST_F(Mlx5TxError, AStoppedQueueHasNothingToCleanUp) {
    start();
    ASSERT_EQ(send(packets(20)), 20u);
    while (pending_wqebbs() > 0)
        execute_wqe();
    stop_look_and_start();
    ASSERT_EQ(send(packets(20)), 20u);
    break_queue(CqeSyndrome::local_protection);
    reset_result = -EIO;
    ASSERT_EQ(send(nullptr, 0), 0u);
    stop_look_and_start();
    expect_traffic(20);
}

} // namespace
} // namespace rings_test
