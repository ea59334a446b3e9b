// SPDX-License-Identifier: BSD-3-Clause
// Send on mapped mlx5 rings: status, cleanup, stop and start, prepare, what set-up refuses.
#include "tests/unit/rings/mlx5_tx.hpp"

namespace rings_test {
namespace {

TEST_F(Mlx5Tx, DescriptorStatusAndCleanup) {
    start();
    const auto status = [&](uint16_t i) {
        return rawqp::kMlx5Format.tx_descriptor_status(ring, i);
    };
    EXPECT_EQ(status(63), RTE_ETH_TX_DESC_DONE);
    EXPECT_EQ(status(64), -EINVAL);
    std::vector<rte_mbuf*> packets(48);
    for (rte_mbuf*& one : packets)
        one = packet(0, {64});
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(send(packets.data() + 16 * i, 16), 16u);
    EXPECT_EQ(status(15), RTE_ETH_TX_DESC_DONE);
    EXPECT_EQ(status(16), RTE_ETH_TX_DESC_FULL);
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 0), 0);
    execute_all();
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 17), 17);
    EXPECT_EQ(in_use(), 31u);
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 0), 31);
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(status(63), RTE_ETH_TX_DESC_DONE);
}

/// Though a completion reports more than that, of several pools.
TEST_F(Mlx5Tx, CleanupFreesNoMoreThanAsked) {
    start({.offloads = 0, .multi_packet = true});
    const test_eal::Pool other = test_eal::make_pool(64);
    for (uint32_t i = 0; i < 48; ++i)
        ASSERT_EQ(send({make_packet(i / 16 == 1 ? other.get() : pool.get(), i, {64})}), 1u);
    execute_all();
    const auto held = [&] { return in_use() + rte_mempool_in_use_count(other.get()); };
    for (unsigned left = 48; left > 0; left -= 3) {
        ASSERT_EQ(held(), left);
        ASSERT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 3), 3);
    }
    EXPECT_EQ(held(), 0u);
}

/// With nothing more to be reported, too.
TEST_F(Mlx5Tx, ABurstFreesWhatACleanupHasLeft) {
    start();
    for (int round = 0; round < 10; ++round) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < 32; ++i)
            packets.push_back(packet(i, {20, 50}));
        ASSERT_EQ(send(packets), 32u);
        execute_all();
        EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 5), 5);
        EXPECT_EQ(in_use(), 54u);
        EXPECT_EQ(send(nullptr, 0), 0u);
        EXPECT_EQ(in_use(), 0u);
    }
}

TEST_F(Mlx5Tx, CleanupCountsPackets) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 8; ++i)
        packets.push_back(
            packet(i, i < 4 ? std::vector<uint16_t>{20, 20, 30} : std::vector<uint16_t>{64}));
    ASSERT_EQ(send(packets), 8u);
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 0), 0) << "asks for their completion";
    execute_all();
    EXPECT_EQ(rawqp::kMlx5Format.tx_done_cleanup(ring, 0), 8) << "of 16 mbufs";
    EXPECT_EQ(in_use(), 0u);
}

TEST_F(Mlx5Tx, StopAndStartAgain) {
    start();
    for (int round = 0; round < 5; ++round) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < 40; ++i)
            packets.push_back(packet(i, {64}));
        ASSERT_EQ(send(packets), 40u);
        for (uint32_t i = 0; i < 40u - 4 * static_cast<uint32_t>(round); ++i)
            ASSERT_EQ(execute(), expected(i, 64));
        rawqp::kMlx5Format.tx_stop(*ring);
        EXPECT_EQ(in_use(), 0u);
        sq->doorbell = {};
        executed = 0;
        rawqp::kMlx5Format.tx_start(*ring);
    }
}

/// Up to the error, if there is one; the stop may come before anybody has polled.
TEST_F(Mlx5Tx, AStopTakesWhatHasCompletedForSent) {
    for (const bool broken : {false, true}) {
        start();
        for (uint32_t burst = 0; burst < 3; ++burst) {
            std::vector<rte_mbuf*> packets;
            for (uint32_t i = 0; i < 16; ++i)
                packets.push_back(packet(i, {64}));
            ASSERT_EQ(send(packets), 16u);
        }
        for (int i = 0; i < 40; ++i)
            execute();
        ASSERT_EQ(completions, 2);
        if (broken) break_queue(mlx5::CqeSyndrome::local_protection);
        const uint64_t before = ring->counters.packets, failed = ring->counters.errors;
        EXPECT_EQ(rawqp::kMlx5Format.tx_stop(*ring), 16u);
        EXPECT_EQ(before - ring->counters.packets, 16u);
        EXPECT_EQ(ring->counters.errors - failed, 16u);
        EXPECT_EQ(in_use(), 0u);
        EXPECT_EQ(resets, 0);
        TearDown();
        ring = nullptr;
    }
}

/// Lkeys from before the stop may be invalid.
TEST_F(Mlx5Tx, AStartLooksKeysUpAnew) {
    for (const bool multi_packet : {false, true}) {
        start({.multi_packet = multi_packet});
        ASSERT_EQ(send({packet(0, {64})}), 1u);
        execute();
        rawqp::kMlx5Format.tx_stop(*ring);
        sq->doorbell = {};
        executed = 0;
        mrs.split = 1; // everything has a different lkey now
        rawqp::kMlx5Format.tx_start(*ring);
        ASSERT_EQ(send({packet(1, {64})}), 1u);
        EXPECT_EQ(execute(), expected(1, 64)); // also checks the lkey
        mrs.split = 0;
        TearDown();
        ring = nullptr;
    }
}

TEST_F(Mlx5Tx, Prepare) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM |
                       RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
    struct {
        std::vector<uint16_t> lengths;
        uint64_t flags;
        int error;
    } const cases[] = {
        {{64}, 0, 0},
        {{14}, 0, 0},
        {{13}, 0, EINVAL},
        {std::vector<uint16_t>(8, 20), 0, 0},
        {std::vector<uint16_t>(9, 20), 0, EINVAL},
        {{64}, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM, 0},
        {{64}, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_TCP_CKSUM, ENOTSUP},
        {{64}, RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_SCTP_CKSUM, ENOTSUP},
        {{64}, RTE_MBUF_F_TX_VLAN, ENOTSUP},
        {{64}, RTE_MBUF_F_TX_TCP_SEG, ENOTSUP},
    };
    for (const auto& c : cases) {
        rte_mbuf* packets[] = {packet(0, {64}), packet(0, c.lengths)};
        packets[1]->ol_flags = c.flags;
        rte_errno = 0;
        EXPECT_EQ(rawqp::kMlx5Format.tx_prepare(ring, packets, 2), c.error == 0 ? 2 : 1);
        EXPECT_EQ(rte_errno, c.error);
        rte_pktmbuf_free_bulk(packets, 2);
    }
}

TEST_F(Mlx5Tx, CreateRefusesWhatDoesNotFit) {
    start();
    const auto refusal = [&] {
        const auto created = rawqp::kMlx5Format.tx_create(spec);
        return created ? std::string() : created.error().what;
    };
    spec.descriptors = 128;
    EXPECT_THAT(refusal(), testing::HasSubstr("64 entries"));
    FakeCq larger(128); // the queue of start() keeps its own CQ
    spec.cq = &larger.handle;
    EXPECT_THAT(refusal(), testing::HasSubstr("64 blocks"));
    spec.descriptors = 96;
    EXPECT_THAT(refusal(), testing::HasSubstr("96 descriptors"));
    spec.descriptors = 64;
    spec.max_segments = 33;
    EXPECT_THAT(refusal(), testing::HasSubstr("33 segments"));
}

} // namespace
} // namespace rings_test
