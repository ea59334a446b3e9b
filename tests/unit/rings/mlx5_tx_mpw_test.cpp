// SPDX-License-Identifier: BSD-3-Clause
// Multi-packet WQEs (eMPW): exact bytes, where one ends and the next begins, errors; scalar and
// AVX2.
#include "tests/unit/rings/growing_pool.hpp"
#include "tests/unit/rings/mlx5_tx_mpw.hpp"

#include <random>

namespace rings_test {
namespace {

using mlx5::CqeOpcode;
using mlx5::CqeSyndrome;
using mlx5::WqeOpcode;

TEST_P(Mlx5TxMpw, ExactWqeAndDoorbell) {
    start({.offloads = 0});
    EXPECT_STREQ(burst.description,
                 GetParam() >= 256 ? "mlx5 AVX2, multi-packet" : "mlx5 scalar, multi-packet");
    std::vector<rte_mbuf*> mbufs;
    for (uint16_t i = 0; i < 7; ++i)
        mbufs.push_back(packet(i, {static_cast<uint16_t>(60 + 100 * i)}));
    ASSERT_EQ(send(mbufs), 7u);

    std::vector<uint8_t> expected((2 + 7) * 16, 0);
    const auto put = [&](size_t at, uint64_t value, size_t bytes) {
        for (size_t i = 0; i < bytes; ++i)
            expected[at + i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
    };
    put(0, 0x00000029, 4);               // index 0, ENHANCED_MPSW
    put(4, FakeSq::kNumber << 8 | 9, 4); // nine segments
    for (size_t i = 0; i < 7; ++i) {
        put(32 + 16 * i, 60 + 100 * i, 4);
        put(36 + 16 * i, FakeMrs::kLkey, 4);
        put(40 + 16 * i, rte_pktmbuf_mtod(mbufs[i], uintptr_t), 8);
    }
    EXPECT_EQ(sq->wqe(0, static_cast<uint32_t>(expected.size())), expected);
    EXPECT_EQ(sq->doorbell.send, 3u);
    uint64_t doorbell;
    memcpy(&doorbell, expected.data(), sizeof doorbell);
    EXPECT_EQ(sq->uar[0], doorbell);
    EXPECT_EQ(ring->counters.packets, 7u);
    EXPECT_EQ(ring->counters.bytes, 7 * 60u + 100 * 21);
}

TEST_P(Mlx5TxMpw, EveryBatchSizeAndWrapAround) {
    for (const uint64_t offloads : {uint64_t{0}, RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE,
                                    RTE_ETH_TX_OFFLOAD_MULTI_SEGS, RTE_ETH_TX_OFFLOAD_IPV4_CKSUM}) {
        start({.offloads = offloads});
        send_every_batch(60, 64, 14);
        TearDown();
        ring = nullptr;
    }
}

TEST_P(Mlx5TxMpw, AWqeHoldsAtMost61PacketsAndEndsAtTheRingsEnd) {
    start();
    ASSERT_EQ(send(packets(64)), 64u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(61), mpw(3)));
    execute_all(); // 18 of 64 WQEBBs
    for (int i = 0; i < 4; ++i) {
        ASSERT_EQ(send(packets(32)), 32u);
        execute_all(); // 9 more
    }
    ASSERT_EQ(send(packets(60)), 60u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(38), mpw(22))) << "10 WQEBBs up to the end";
    execute_all();
}

TEST_P(Mlx5TxMpw, FullRing) {
    start();
    auto mbufs = packets(100);
    ASSERT_EQ(send(mbufs.data(), 100), 64u);
    ASSERT_EQ(send(mbufs.data() + 64, 36), 0u);
    for (uint32_t i = 0; i < 64; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
    ASSERT_EQ(send(mbufs.data() + 64, 36), 36u);
    for (uint32_t i = 64; i < 100; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
}

TEST_P(Mlx5TxMpw, FlagsAreSharedOrANewWqeBegins) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
                       RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
    constexpr uint64_t kTcp = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM;
    constexpr uint64_t kUdp = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
    const uint64_t flags[] = {kTcp, kTcp, kUdp, kTcp, 0, 0, kUdp, RTE_MBUF_F_TX_IP_CKSUM, kUdp};
    std::vector<rte_mbuf*> mbufs;
    for (const uint64_t each : flags) {
        mbufs.push_back(packet(static_cast<uint32_t>(mbufs.size()), {64}));
        mbufs.back()->ol_flags = each;
    }
    ASSERT_EQ(send(mbufs), 9u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(4), mpw(2), mpw(1), mpw(1), mpw(1)));
    const auto cs_flags = [&](uint16_t wqebb) {
        return sq->segment<mlx5::WqeEthSeg>(wqebb, 1).cs_flags;
    };
    EXPECT_EQ(cs_flags(0), 0xc0);
    EXPECT_EQ(cs_flags(2), 0);
    EXPECT_EQ(cs_flags(3), 0xc0);
    EXPECT_EQ(cs_flags(4), 0x40);
    EXPECT_EQ(cs_flags(5), 0xc0);
    for (uint32_t i = 0; i < 9; ++i)
        EXPECT_EQ(execute(), expected(i, 64));
}

/// The same checksum flags mean other checksums for packets in tunnels.
TEST_P(Mlx5TxMpw, TunnelsAreSharedOrANewWqeBegins) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_OUTER_IPV4_CKSUM});
    constexpr uint64_t kPlain = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
    constexpr uint64_t kInner = kPlain | RTE_MBUF_F_TX_TUNNEL_VXLAN;
    constexpr uint64_t kBoth = kInner | RTE_MBUF_F_TX_OUTER_IPV4 | RTE_MBUF_F_TX_OUTER_IP_CKSUM;
    std::vector<rte_mbuf*> mbufs = packets(9);
    for (size_t i = 0; i < 9; ++i)
        mbufs[i]->ol_flags = i < 2 ? kPlain : i < 5 ? kInner : i < 8 ? kBoth : kPlain;
    ASSERT_EQ(send(mbufs), 9u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(2), mpw(3), mpw(3), mpw(1)));
    uint16_t at = 0;
    for (const auto& [wqebbs, cs_flags] : {std::pair{1, 0x40}, {2, 0x10}, {2, 0x50}, {1, 0x40}}) {
        EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(at, 1).cs_flags, cs_flags);
        at = static_cast<uint16_t>(at + wqebbs);
    }
    execute_all();
}

TEST_P(Mlx5TxMpw, LongHeadersGoInAWqeOfTheirOwn) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_TSO |
                       RTE_ETH_TX_OFFLOAD_QINQ_INSERT});
    constexpr Shape kTso{WqeOpcode::tso, 7}, kTwoTags{WqeOpcode::send, 5};
    std::vector<rte_mbuf*> mbufs = packets(9, 100);
    for (rte_mbuf* mbuf : mbufs) // everything else is alike
        mbuf->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
    mbufs[4]->ol_flags |= RTE_MBUF_F_TX_TCP_SEG;
    mbufs[4]->l2_len = 14;
    mbufs[4]->l3_len = mbufs[4]->l4_len = 20;
    mbufs[4]->tso_segsz = 30;
    ASSERT_EQ(send(mbufs), 9u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(4), kTso, mpw(4)));
    execute_all();
    mbufs = packets(9, 100);
    mbufs[6]->ol_flags = RTE_MBUF_F_TX_QINQ;
    ASSERT_EQ(send(mbufs), 9u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(6), kTwoTags, mpw(2)));
    execute_all();
}

/// Devices insert no tags into the packets of a multi-packet WQE.
TEST_P(Mlx5TxMpw, TagsGoInAWqeOfTheirOwn) {
    constexpr Shape kTagged{WqeOpcode::send, 3};
    const auto send_with_tags = [&] {
        std::vector<rte_mbuf*> mbufs = packets(7);
        for (const size_t tagged : {2, 3, 6}) {
            mbufs[tagged]->ol_flags = RTE_MBUF_F_TX_VLAN;
            mbufs[tagged]->vlan_tci = 0x1005;
        }
        EXPECT_EQ(send(mbufs), 7u);
    };
    start({.offloads = RTE_ETH_TX_OFFLOAD_VLAN_INSERT});
    send_with_tags();
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(2), kTagged, kTagged, mpw(2), kTagged));
    const auto eth = sq->segment<mlx5::WqeEthSeg>(1, 1);
    EXPECT_EQ(eth.inline_size, mlx5::kInsertVlan);
    EXPECT_EQ(eth.inline_header[0], 0x10);
    EXPECT_EQ(eth.inline_header[1], 5);
    for (uint32_t i = 0; i < 7; ++i)
        EXPECT_EQ(execute(), expected(i, 64));
    TearDown();

    start({.offloads = RTE_ETH_TX_OFFLOAD_VLAN_INSERT, .sq_wqebbs = 128, .inline_bytes = 70});
    send_with_tags();
    const uint8_t tag[] = {0x81, 0x00, 0x10, 0x05};
    for (uint32_t i = 0; i < 7; ++i) {
        auto want = expected(i, 64);
        if (i == 2 || i == 3 || i == 6)
            want.insert(want.begin() + 12, std::begin(tag), std::end(tag));
        EXPECT_EQ(execute(), want) << "inlined, and the tag by software";
    }
}

TEST_P(Mlx5TxMpw, MetadataIsSharedOrANewWqeBegins) {
    start({.offloads = 0, .metadata = true});
    ASSERT_EQ(send({packet_with_metadata(5), packet_with_metadata(5), packet(0, {64}),
                    packet(0, {64}), packet_with_metadata(0), packet_with_metadata(0x80000005)}),
              6u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(2), mpw(3), mpw(1)));
    EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(0, 1).metadata, 5u);
    EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(1, 1).metadata, 0u);
    EXPECT_EQ(sq->segment<mlx5::WqeEthSeg>(3, 1).metadata, 0x80000005u);
    execute_all();
}

TEST_P(Mlx5TxMpw, ChainsGoInAWqeOfTheirOwn) {
    start();
    std::vector<rte_mbuf*> mbufs = packets(5);
    mbufs[2]->next = packet(0, {30});
    mbufs[2]->nb_segs = 2;
    mbufs[2]->pkt_len += 30;
    ASSERT_EQ(send(mbufs), 5u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(2), (Shape{WqeOpcode::send, 4}), mpw(2)));
    settle();
    EXPECT_EQ(in_use(), 0u) << "both segments of the chain as well";
}

TEST_P(Mlx5TxMpw, UnsendablePacketsAreDroppedAndCounted) {
    start({.offloads = 0});
    std::vector<rte_mbuf*> mbufs = {packet(0, {64}),     packet(1, {13}), packet(2, {64}),
                                    packet(3, {64, 64}), packet(4, {0}),  packet(5, {64})};
    ASSERT_EQ(send(mbufs), 6u);
    EXPECT_EQ(ring->counters.errors, 3u);
    EXPECT_EQ(ring->counters.packets, 3u);
    for (const uint32_t seed : {0u, 2u, 5u})
        EXPECT_EQ(execute(), expected(seed, 64));
    EXPECT_EQ(pending_wqebbs(), 0u);
}

/// The vector loop looks at several packets at once, the remainder is checked one by one.
TEST_P(Mlx5TxMpw, ARuntIsFoundAnywhere) {
    start({.offloads = 0});
    for (uint32_t runt = 0; runt < 11; ++runt) {
        auto mbufs = packets(11);
        mbufs[runt]->data_len = 13;
        mbufs[runt]->pkt_len = 13;
        ASSERT_EQ(send(mbufs), 11u);
        EXPECT_EQ(ring->counters.errors, runt + 1);
        for (uint32_t i = 0; i < 11; ++i) {
            if (i == runt) continue;
            ASSERT_EQ(execute(), expected(i, 64));
        }
        ASSERT_EQ(pending_wqebbs(), 0u);
    }
}

TEST_P(Mlx5TxMpw, MemoryWithoutLkeyIsDropped) {
    start();
    mrs.refuse = true;
    ASSERT_EQ(send(packets(5)), 5u);
    EXPECT_EQ(ring->counters.errors, 5u);
    EXPECT_EQ(sq->doorbell.send, 0u);
    mrs.refuse = false;
    mrs.unregister(); // what was found out about the pool is no longer valid
    ASSERT_EQ(send(packets(5)), 5u);
    EXPECT_EQ(execute(), expected(0, 64));
    execute_all();
}

TEST_P(Mlx5TxMpw, PoolInTwoRegions) {
    start();
    auto mbufs = packets(60);
    mrs.split = rte_pktmbuf_mtod(mbufs[30], uintptr_t);
    mrs.unregister();
    ASSERT_EQ(send(mbufs), 60u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(60))) << "keys may differ within a WQE";
    for (uint32_t i = 0; i < 60; ++i)
        ASSERT_EQ(execute(), expected(i, 64)); // also checks the lkey
}

TEST_P(Mlx5TxMpw, PoolThatGrowsIntoAnotherRegion) {
    GrowingPool growing(40);
    mrs.split = growing.later_memory();
    start();
    std::vector<rte_mbuf*> held;
    for (uint32_t i = 0; i < 32; ++i) // the rest is from both regions
        held.push_back(rte_pktmbuf_alloc(growing.get()));
    for (const bool grown : {false, true}) {
        if (grown) growing.grow();
        std::vector<rte_mbuf*> mbufs;
        for (uint32_t i = 0; i < (grown ? 40u : 8u); ++i)
            mbufs.push_back(make_packet(growing.get(), i, {64}));
        ASSERT_EQ(send(mbufs), mbufs.size());
        for (uint32_t i = 0; i < mbufs.size(); ++i)
            ASSERT_EQ(execute(), expected(i, 64)); // also checks the lkey
        settle();
    }
    rte_pktmbuf_free_bulk(held.data(), static_cast<unsigned>(held.size()));
    EXPECT_EQ(rte_mempool_in_use_count(growing.get()), 0u);
    TearDown();
    ring = nullptr;
}

TEST_P(Mlx5TxMpw, RememberedKeysFollowUnregistration) {
    start();
    ASSERT_EQ(send(packets(8)), 8u);
    execute_all();
    auto mbufs = packets(8);
    mrs.split = 1;
    mrs.unregister();
    ASSERT_EQ(send(mbufs), 8u);
    for (uint32_t i = 0; i < 8; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
}

TEST_P(Mlx5TxMpw, RandomPacketsArriveAsTheyAre) {
    start({.max_segments = 6,
           .offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
    std::mt19937 random(GetParam());
    uint32_t seed = 0;
    for (int round = 0; round < 3000; ++round) {
        std::vector<rte_mbuf*> mbufs;
        std::vector<std::vector<uint8_t>> want;
        unsigned room = 64 - 15; // up to 15 may be held until a completion is requested
        for (uint32_t count = 1 + random() % 48; count > 0 && room >= 6; --count, ++seed) {
            std::vector<uint16_t> lengths{static_cast<uint16_t>(14 + random() % 200)};
            for (uint32_t more = random() % 16 == 0 ? random() % 6 : 0; more > 0; --more)
                lengths.push_back(static_cast<uint16_t>(random() % 100));
            uint32_t bytes = 0;
            for (const uint16_t length : lengths)
                bytes += length;
            room -= static_cast<unsigned>(lengths.size());
            mbufs.push_back(packet(seed, lengths));
            if (random() % 8 == 0)
                mbufs.back()->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
            want.push_back(expected(seed, bytes));
        }
        ASSERT_EQ(send(mbufs), mbufs.size());
        for (const auto& bytes : want)
            ASSERT_EQ(execute(), bytes);
        ASSERT_EQ(pending_wqebbs(), 0u);
    }
    EXPECT_EQ(ring->counters.packets, seed);
}

TEST_P(Mlx5TxMpw, AnErrorLosesAllPacketsOfTheWqe) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_UDP_CKSUM});
    ASSERT_EQ(send(packets(10)), 10u);
    execute_all();
    auto mbufs = packets(30, 100);
    for (size_t i = 12; i < 22; ++i) // WQEs of 12, 10 and 8 packets
        mbufs[i]->ol_flags = RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_UDP_CKSUM;
    ASSERT_EQ(send(mbufs), 30u);
    ASSERT_THAT(posted(), testing::ElementsAre(mpw(12), mpw(10), mpw(8)));
    for (uint32_t i = 0; i < 12; ++i)
        execute();
    CqeSyndrome syndrome = CqeSyndrome::local_protection;
    for (const uint16_t wqe : {executed, static_cast<uint16_t>(executed + 3)}) {
        cq->write_error(CqeOpcode::req_error, syndrome, wqe);
        syndrome = CqeSyndrome::flushed;
    }
    ASSERT_EQ(send(packets(1)), 1u);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.errors, 18u);
    EXPECT_EQ(ring->counters.packets, 10u + 12 + 1);
    EXPECT_EQ(ring->counters.bytes, 10u * 64 + 12 * 100 + 64);
    EXPECT_EQ(in_use(), 1u);
    EXPECT_EQ(execute(), expected(0, 64));
}

TEST_P(Mlx5TxMpw, StopCountsWhatIsLeft) {
    start();
    ASSERT_EQ(send(packets(20)), 20u);
    execute_all();
    ASSERT_EQ(send(packets(40, 100)), 40u);
    EXPECT_EQ(rawqp::kMlx5Format.tx_stop(*ring), 40u);
    EXPECT_EQ(ring->counters.packets, 20u);
    EXPECT_EQ(ring->counters.bytes, 20u * 64);
    EXPECT_EQ(ring->counters.errors, 40u);
    EXPECT_EQ(in_use(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Senders, Mlx5TxMpw, testing::ValuesIn(kTxWidths), kByWidth);

} // namespace
} // namespace rings_test
