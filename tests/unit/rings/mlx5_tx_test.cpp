// SPDX-License-Identifier: BSD-3-Clause
// Send on mapped mlx5 rings: WQE bytes, segments, offloads, completions, accounting.
#include "tests/unit/rings/mlx5_tx.hpp"

namespace rings_test {
namespace {

TEST_F(Mlx5Tx, ExactWqeAndDoorbell) {
    start({.offloads = 0});
    EXPECT_STREQ(burst.description, "mlx5 scalar");
    rte_mbuf* mbuf = packet(1, {100});
    const auto address = rte_pktmbuf_mtod(mbuf, uintptr_t);
    ASSERT_EQ(send({mbuf}), 1u);

    std::vector<uint8_t> expected(48, 0);
    const auto put = [&](size_t at, uint64_t value, size_t bytes) {
        for (size_t i = 0; i < bytes; ++i)
            expected[at + i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
    };
    put(0, 0x0000000a, 4);               // index 0, SEND
    put(4, FakeSq::kNumber << 8 | 3, 4); // three segments
    put(32, 100, 4);                     // data: bytes, lkey, address
    put(36, FakeMrs::kLkey, 4);
    put(40, address, 8);
    EXPECT_EQ(sq->wqe(0, 48), expected);

    EXPECT_EQ(sq->doorbell.send, 1u);
    EXPECT_EQ(sq->doorbell.receive, 0u);
    uint64_t doorbell;
    memcpy(&doorbell, expected.data(), sizeof doorbell);
    EXPECT_EQ(sq->uar[0], doorbell);
    EXPECT_EQ(std::count(sq->uar.begin(), sq->uar.end(), 0u), std::ssize(sq->uar) - 1);
    EXPECT_EQ(ring->counters.packets, 1u);
    EXPECT_EQ(ring->counters.bytes, 100u);
}

TEST_F(Mlx5Tx, EmptyBurstRingsNothing) {
    start();
    EXPECT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(sq->doorbell.send, 0u);
    EXPECT_EQ(sq->uar[0], 0u);
}

TEST_F(Mlx5Tx, EveryBatchSizeAndWrapAround) {
    start();
    send_every_batch(40, 48, 60); // well past the 16-bit counters
    EXPECT_EQ(cq->doorbell.consumer, static_cast<uint32_t>(completions));
}

/// One every 16 segments in a ring of 64, every 32 in one of 512; always in a burst's last WQE.
TEST_F(Mlx5Tx, ACompletionNowAndThen) {
    start({.descriptors = 512, .sq_wqebbs = 512});
    struct {
        uint16_t batch;
        bool asks;
    } const bursts[] = {{1, false},  {30, false}, {5, true}, {32, true}, {40, true},
                        {16, false}, {15, false}, {1, true}, {1, false}};
    for (const auto& [batch, asks] : bursts) {
        const uint16_t first = sq->doorbell.send;
        std::vector<rte_mbuf*> packets;
        for (uint16_t i = 0; i < batch; ++i)
            packets.push_back(packet(i, {64}));
        ASSERT_EQ(send(packets), batch);
        for (uint16_t i = 0; i < batch; ++i) {
            const auto control = sq->segment<mlx5::WqeCtrlSeg>(static_cast<uint16_t>(first + i), 0);
            EXPECT_EQ(control.fm_ce_se, asks && i + 1 == batch ? mlx5::kCqUpdate : 0);
        }
        execute_all();
    }
    EXPECT_EQ(completions, 4);
    send(nullptr, 0);
    EXPECT_EQ(in_use(), 1u);
    EXPECT_EQ(cq->doorbell.consumer, 4u);
    settle();
    EXPECT_EQ(in_use(), 0u) << "nothing stays behind";
}

TEST_F(Mlx5Tx, FullRingTakesNoMoreUntilCompleted) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 100; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets.data(), 100), 64u);
    ASSERT_EQ(send(packets.data() + 64, 36), 0u);
    EXPECT_EQ(ring->counters.packets, 64u);
    for (uint32_t i = 0; i < 64; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
    ASSERT_EQ(send(packets.data() + 64, 36), 36u);
    for (uint32_t i = 64; i < 100; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
    settle();
    EXPECT_EQ(in_use(), 0u);
}

// ---------------------------------------------------------------- offloads

TEST_F(Mlx5Tx, ChecksumFlags) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
                       RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
    EXPECT_STREQ(burst.description, "mlx5 scalar, offloads");
    struct {
        uint64_t flags;
        uint8_t cs_flags;
    } const cases[] = {
        {0, 0},
        {RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM, 0x40},
        {RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_TCP_CKSUM, 0x80},
        {RTE_MBUF_F_TX_IPV6 | RTE_MBUF_F_TX_UDP_CKSUM, 0x80},
        {RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM, 0xc0},
        {RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM, 0xc0},
    };
    uint16_t index = 0;
    for (const auto& c : cases) {
        rte_mbuf* mbuf = packet(0, {64});
        mbuf->ol_flags = c.flags;
        ASSERT_EQ(send({mbuf}), 1u);
        mlx5::WqeEthSeg eth{};
        eth.cs_flags = c.cs_flags;
        const auto written = sq->segment<mlx5::WqeEthSeg>(index++, 1);
        EXPECT_EQ(memcmp(&written, &eth, sizeof eth), 0) << std::hex << c.flags;
    }
}

TEST_F(Mlx5Tx, VlanInsertion) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_VLAN_INSERT});
    rte_mbuf* tagged = packet(0, {64});
    tagged->ol_flags = RTE_MBUF_F_TX_VLAN;
    tagged->vlan_tci = 0x7123;
    ASSERT_EQ(send({tagged, packet(1, {64})}), 2u);
    const auto eth = sq->segment<mlx5::WqeEthSeg>(0, 1);
    EXPECT_EQ(eth.inline_size, mlx5::kInsertVlan);
    EXPECT_EQ(eth.inline_header[0], 0x71);
    EXPECT_EQ(eth.inline_header[1], 0x23);
    const auto plain = sq->segment<mlx5::WqeEthSeg>(1, 1);
    EXPECT_EQ(plain.inline_size, 0u);
}

TEST_F(Mlx5Tx, Metadata) {
    for (const uint16_t inline_bytes : {0, 128}) {
        start({.inline_bytes = inline_bytes, .metadata = true});
        ASSERT_EQ(send({packet_with_metadata(0x12345678), packet(0, {64})}), 2u);
        EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(0, 1).metadata, 0x12345678u);
        const auto second = static_cast<uint16_t>(pending_wqebbs() / 2);
        EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(second, 1).metadata, 0u);
        for (int i = 0; i < 2; ++i)
            EXPECT_EQ(execute(), expected(0, 64));
        TearDown();
        ring = nullptr;
    }
    start(); // a burst function that ignores metadata
    ASSERT_EQ(send({packet_with_metadata(1)}), 1u);
    EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(0, 1).metadata, 0u);
}

TEST_F(Mlx5Tx, SharedMbufsAndSeveralPools) {
    start();
    const test_eal::Pool other = test_eal::make_pool(64);
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 40; ++i) {
        rte_mbuf* mbuf = make_packet(i % 3 == 0 ? other.get() : pool.get(), i, {64});
        if (i % 5 == 0) rte_mbuf_refcnt_update(mbuf, 1);
        packets.push_back(mbuf);
    }
    ASSERT_EQ(send(packets), 40u);
    execute_all();
    ASSERT_EQ(send(nullptr, 0), 0u);
    EXPECT_EQ(in_use() + rte_mempool_in_use_count(other.get()), 8u);
    for (uint32_t i = 0; i < 40; i += 5)
        rte_pktmbuf_free(packets[i]);
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(other.get()), 0u);
}

TEST_F(Mlx5Tx, FastFree) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE});
    for (int round = 0; round < 100; ++round) { // the ring wraps within bursts
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < 23; ++i)
            packets.push_back(packet(i, {64}));
        ASSERT_EQ(send(packets), 23u);
        execute_all();
        ASSERT_EQ(send(nullptr, 0), 0u);
        ASSERT_EQ(in_use(), 0u);
    }
}

// ---------------------------------------------------------------- several segments

TEST_F(Mlx5Tx, SegmentsAndWrapAroundInsideAWqe) {
    start({.max_segments = 20});
    EXPECT_STREQ(burst.description, "mlx5 scalar, multi-segment");
    uint32_t seed = 0;
    for (int round = 0; round < 50; ++round) {
        for (uint16_t segments = 1; segments <= 20; ++segments) {
            std::vector<uint16_t> lengths(segments, static_cast<uint16_t>(20 + segments));
            ASSERT_EQ(send({packet(seed, lengths)}), 1u);
            ASSERT_EQ(pending_wqebbs(), (2u + segments + 3) / 4);
            ASSERT_EQ(execute(), expected(seed, segments * (20u + segments)));
            ++seed;
        }
    }
    EXPECT_EQ(ring->counters.packets, seed);
}

TEST_F(Mlx5Tx, EmptySegmentsAreSkipped) {
    start();
    ASSERT_EQ(send({packet(5, {30, 0, 40, 0})}), 1u);
    const auto control = sq->segment<mlx5::WqeCtrlSeg>(0, 0);
    EXPECT_EQ(control.qpn_ds & 0x3f, 4u);
    EXPECT_EQ(execute(), expected(5, 70));
}

TEST_F(Mlx5Tx, RoomIsCountedInSegments) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 12; ++i)
        packets.push_back(packet(i, {20, 20, 20, 20, 20, 20}));
    ASSERT_EQ(send(packets.data(), 12), 10u) << "of 64 segments 60 are taken";
    for (uint32_t i = 0; i < 10; ++i)
        ASSERT_EQ(execute(), expected(i, 120));
    ASSERT_EQ(send(packets.data() + 10, 2), 2u);
}

/// It would wait forever: the ring never has that much room.
TEST_F(Mlx5Tx, AChainThatIsTooLongIsDroppedBeforeTheRingHasRoom) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 56; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets), 56u); // room for eight segments
    ASSERT_EQ(send({packet(56, std::vector<uint16_t>(9, 20)), packet(57, {64})}), 2u);
    EXPECT_EQ(ring->counters.errors, 1u);
    execute_all();
}

TEST_F(Mlx5Tx, UnsendablePacketsAreDroppedAndCounted) {
    start();
    const std::vector<uint16_t> nine(9, 20);
    std::vector<rte_mbuf*> packets = {packet(0, {64}), packet(1, nine), packet(2, {13}),
                                      packet(3, {0}), packet(4, {64})};
    ASSERT_EQ(send(packets), 5u);
    EXPECT_EQ(ring->counters.errors, 3u);
    EXPECT_EQ(ring->counters.packets, 2u);
    EXPECT_EQ(ring->counters.bytes, 128u);
    EXPECT_EQ(in_use(), 2u);
    EXPECT_EQ(execute(), expected(0, 64));
    EXPECT_EQ(execute(), expected(4, 64));
    EXPECT_EQ(pending_wqebbs(), 0u);
}

/// Sent by an lcore that has not noticed the stop yet.
TEST_F(Mlx5Tx, PacketsOfAStoppedQueueAreLostAndCounted) {
    start();
    rawqp::kMlx5Format.tx_stop(*ring);
    ASSERT_EQ(send({packet(0, {64}), packet(1, {64})}), 2u);
    on_reset();
    rawqp::kMlx5Format.tx_start(*ring);
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(ring->counters.packets, 0u);
    EXPECT_EQ(ring->counters.errors, 2u);
    ASSERT_EQ(send({packet(2, {64})}), 1u);
    EXPECT_EQ(execute(), expected(2, 64));
}

/// No valid packet has zero segments, and code that advances by segments would never get past it.
class Mlx5TxNoSegments : public Mlx5Tx, public testing::WithParamInterface<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Offloads, Mlx5TxNoSegments,
                         testing::Values(0, RTE_ETH_TX_OFFLOAD_MULTI_SEGS));

TEST_P(Mlx5TxNoSegments, IsRefusedOrSteppedOver) {
    start({.offloads = GetParam()});
    rte_mbuf* packets[] = {packet(0, {64}), packet(1, {64}), packet(2, {64})};
    packets[1]->nb_segs = 0;
    EXPECT_EQ(rawqp::kMlx5Format.tx_prepare(ring, packets, 3), 1u);
    EXPECT_EQ(rte_errno, EINVAL);
    ASSERT_EQ(send(packets, 3), 3u);
    EXPECT_EQ(rawqp::kMlx5Format.tx_stop(*ring), 3u);
}

TEST_F(Mlx5Tx, ChainOnAQueueWithoutMultiSegmentIsDropped) {
    start({.offloads = 0});
    ASSERT_EQ(send({packet(0, {64, 64}), packet(1, {64})}), 2u);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(execute(), expected(1, 64));
}

TEST_F(Mlx5Tx, MemoryWithoutLkeyIsDropped) {
    start();
    mrs.refuse = true;
    ASSERT_EQ(send({packet(0, {64}), packet(1, {64, 64})}), 2u);
    EXPECT_EQ(ring->counters.errors, 2u);
    EXPECT_EQ(sq->doorbell.send, 0u);
    EXPECT_EQ(in_use(), 0u);
    mrs.refuse = false;
    ASSERT_EQ(send({packet(2, {64})}), 1u);
    EXPECT_EQ(execute(), expected(2, 64));
}

TEST_F(Mlx5Tx, LkeysFollowUnregistrationAndRegions) {
    start();
    ASSERT_EQ(send({packet(0, {64})}), 1u);
    execute();
    rte_mbuf* mbuf = packet(1, {64});
    mrs.split = 1;
    mrs.unregister();
    ASSERT_EQ(send({mbuf}), 1u);
    EXPECT_EQ(execute(), expected(1, 64)); // also checks the lkey
}

} // namespace
} // namespace rings_test
