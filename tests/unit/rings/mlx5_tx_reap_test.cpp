// SPDX-License-Identifier: BSD-3-Clause
// Send on mapped mlx5 rings: when bursts free the packets that have completed.
#include "tests/unit/rings/mlx5_tx.hpp"

namespace rings_test {
namespace {

class Mlx5TxReap : public Mlx5Tx, public testing::WithParamInterface<bool> {
  protected:
    static constexpr uint16_t kAskEvery = 16; ///< packets, in a ring of 64

    void SetUp() override {
        start({.offloads = 0, .multi_packet = GetParam()}); // one descriptor per packet
    }
    void send_one() { ASSERT_EQ(send({packet(0, {64})}), 1u); }
};

TEST_P(Mlx5TxReap, SmallBurstsFreeNowAndThen) {
    for (uint16_t i = 1; i <= kAskEvery; ++i) {
        send_one();
        execute_all();
        EXPECT_EQ(in_use(), i) << "the last one asks";
    }
    send_one();
    EXPECT_EQ(in_use(), 1u) << "all of them at once";
    EXPECT_EQ(cq->doorbell.consumer, 1u);
}

TEST_P(Mlx5TxReap, WhoAsksIsToldOfAll) {
    send_one();
    execute_all();
    EXPECT_EQ(send(nullptr, 0), 0u); // requests a completion
    execute_all();
    EXPECT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(in_use(), 0u);
    send_one();
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 0), 0);
    execute_all();
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 0), 1);
    EXPECT_EQ(in_use(), 0u);
    send_one();
    EXPECT_EQ(rawqp::kMlx5Format.tx_descriptor_status(ring, 63), RTE_ETH_TX_DESC_FULL);
    EXPECT_EQ(pending_wqebbs(), 2u) << "a WQE that asks";
    EXPECT_EQ(rawqp::kMlx5Format.tx_descriptor_status(ring, 63), RTE_ETH_TX_DESC_FULL);
    EXPECT_EQ(pending_wqebbs(), 2u) << "once";
    execute_all();
    EXPECT_EQ(rawqp::kMlx5Format.tx_descriptor_status(ring, 63), RTE_ETH_TX_DESC_DONE);
}

TEST_F(Mlx5Tx, AskingWaitsForRoom) {
    start({.offloads = 0});
    for (const uint16_t count : {49, 15}) { // the second burst does not request a completion
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < count; ++i)
            packets.push_back(packet(i, {64}));
        ASSERT_EQ(send(packets), count);
    }
    EXPECT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(pending_wqebbs(), 64u);
    execute_all();
    EXPECT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(in_use(), 15u);
    settle();
    EXPECT_EQ(in_use(), 0u);
}

/// WQEs that only request a completion take WQEBBs but have no mbufs.
TEST_P(Mlx5TxReap, AskingTakesRoomOfPackets) {
    constexpr uint16_t kAsking = 6;
    for (uint16_t i = 0; i < kAsking; ++i) {
        send_one();
        EXPECT_EQ(send(nullptr, 0), 0u);
    }
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 60; ++i)
        packets.push_back(packet(i, {64}));
    const uint16_t taken = send(packets.data(), 60);
    EXPECT_EQ(taken, 64 - 2 * kAsking);
    EXPECT_LE(pending_wqebbs(), 64u);
    settle();
    EXPECT_EQ(send(packets.data() + taken, static_cast<uint16_t>(60 - taken)), 60 - taken);
    settle();
    EXPECT_EQ(in_use(), 0u);
}

TEST_P(Mlx5TxReap, ABurstWithoutRoomFrees) {
    for (int i = 0; i < 3; ++i) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t k = 0; k < 30; ++k)
            packets.push_back(packet(k, {64}));
        ASSERT_EQ(send(packets), 30u) << "burst " << i;
        execute_all();
    }
}

TEST_P(Mlx5TxReap, CompletionsOfSeveralPoolsGoHomeTogether) {
    const test_eal::Pool other = test_eal::make_pool(64);
    for (uint32_t i = 0; i < 12; ++i)
        ASSERT_EQ(send({make_packet(i / 3 % 2 == 0 ? pool.get() : other.get(), i, {64})}), 1u);
    rte_mbuf* const shared = packet(0, {64});
    rte_mbuf_refcnt_update(shared, 1);
    ASSERT_EQ(send({shared}), 1u);
    send_one();
    settle();
    EXPECT_EQ(rte_mempool_in_use_count(other.get()), 0u);
    EXPECT_EQ(in_use(), 1u) << "somebody else's";
    rte_pktmbuf_free(shared);
}

/// Several completions are freed in one go only if all mbufs may go to one pool unchecked.
TEST_P(Mlx5TxReap, CompletionsThatWaitGoToTheirOwnPools) {
    const test_eal::Pool other = test_eal::make_pool(64);
    std::vector<rte_mbuf*> bursts[3];
    for (uint32_t i = 0; i < 3 * kAskEvery; ++i)
        bursts[i / kAskEvery].push_back(
            make_packet(i / kAskEvery == 2 ? other.get() : pool.get(), i, {64}));
    rte_mbuf* const shared = bursts[0].front();
    rte_mbuf_refcnt_update(shared, 1);
    for (const std::vector<rte_mbuf*>& burst : bursts)
        ASSERT_EQ(send(burst), kAskEvery);
    execute_all();
    EXPECT_EQ(completions, 3);
    EXPECT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(other.get()), 0u);
    EXPECT_EQ(in_use(), 1u) << "somebody else's";
    rte_pktmbuf_free(shared);
}

TEST_P(Mlx5TxReap, ABrokenQueueIsMetByTheNextBurst) {
    for (int i = 0; i < 3; ++i) {
        send_one();
        execute_all();
    }
    send_one();
    cq->write_error(mlx5::CqeOpcode::req_error, mlx5::CqeSyndrome::local_protection, executed);
    reset_result = -EIO;
    for (int i = 0; i < 2; ++i) {
        rte_mbuf* refused = packet(0, {64});
        EXPECT_EQ(send(&refused, 1), 0u);
        rte_pktmbuf_free(refused);
        EXPECT_EQ(in_use(), 0u) << "completed or lost";
    }
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(ring->counters.packets, 3u);
}

INSTANTIATE_TEST_SUITE_P(WqesOf, Mlx5TxReap, testing::Bool(), [](const auto& test) {
    return test.param ? "SeveralPackets" : "OnePacket";
});

} // namespace
} // namespace rings_test
