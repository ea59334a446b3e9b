// SPDX-License-Identifier: BSD-3-Clause
// Packets in several mbufs on mapped mlx5 rings: a ring has one mbuf per descriptor, and a packet
// takes as many as it fills.
#include "tests/unit/rings/mlx5_rx.hpp"

#include <set>

namespace rings_test {
namespace {

constexpr uint32_t kFirst = 64; // bytes of the first mbuf, without headroom
constexpr uint32_t kNext = kFirst + RTE_PKTMBUF_HEADROOM;

/// The length of a packet that fills that many mbufs.
constexpr uint32_t bytes_for(uint32_t mbufs) { return kFirst + (mbufs - 1) * kNext; }
constexpr uint32_t mbufs_for(uint32_t bytes) {
    return bytes <= kFirst ? 1 : 1 + (bytes - kFirst + kNext - 1) / kNext;
}

class Mlx5RxScatter : public Mlx5RxReaders {
  protected:
    [[nodiscard]] unsigned in_use() const { return rte_mempool_in_use_count(pool.get()); }
};

TEST_P(Mlx5RxScatter, DescriptorsAreTheSegmentsOfTheWqes) {
    start({.segments = 4, .data_room = kNext});
    EXPECT_STREQ(burst.description, "mlx5 scalar, scattered");
    EXPECT_EQ(rq->wqes(), 16u);
    EXPECT_EQ(posted(), 16u);
    std::set<uint64_t> addresses;
    for (size_t i = 0; i < rq->ring.size(); ++i) {
        ASSERT_EQ(rq->ring[i].byte_count, i % 4 == 0 ? kFirst : kNext);
        ASSERT_EQ(rq->ring[i].lkey, FakeMrs::kLkey);
        addresses.insert(rq->ring[i].addr);
    }
    EXPECT_EQ(addresses.size(), 64u);
    EXPECT_EQ(in_use(), 64u);
}

TEST_P(Mlx5RxScatter, EverySize) {
    start({.descriptors = 256, .segments = 8, .pool_size = 300, .data_room = kNext});
    rte_mbuf* mbuf = nullptr;
    for (uint32_t bytes = 60; bytes <= bytes_for(8); ++bytes) {
        const uint32_t packet = sequence;
        deliver(bytes);
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        ASSERT_EQ(mbuf->nb_segs, mbufs_for(bytes));
        take(mbuf, packet, bytes);
        ASSERT_LE(in_use(), 256u);
    }
}

/// Mbufs that a packet does not use keep their place, also in the WQE; used ones are replaced.
TEST_P(Mlx5RxScatter, OnlyWhatAPacketFillsIsReplaced) {
    start({.segments = 8, .data_room = kNext});
    for (const uint32_t mbufs : {1u, 2u, 3u, 4u, 5u, 8u}) {
        const uint32_t slot = consumed % rq->wqes() * 8;
        const uint32_t first = sequence;
        const auto before = rq->ring;
        rte_mbuf* packets[2]; // a quarter of the ring: refilled
        for (int i = 0; i < 2; ++i)
            deliver(bytes_for(mbufs));
        ASSERT_EQ(receive(packets, 2), 2u);
        EXPECT_EQ(posted(), 8u);
        EXPECT_EQ(in_use(), 64u + 2 * mbufs);
        for (uint32_t i = 0; i < 16; ++i)
            EXPECT_EQ(rq->ring[slot + i].addr == before[slot + i].addr, i % 8 >= mbufs)
                << mbufs << " mbufs, segment " << i;
        for (uint32_t i = 0; i < 2; ++i)
            take(packets[i], first + i, bytes_for(mbufs));
        EXPECT_EQ(in_use(), 64u);
    }
}

TEST_P(Mlx5RxScatter, CountersWrapAround) {
    start({.segments = 4, .pool_size = 150, .data_room = kNext, .cq_entries = 32});
    rte_mbuf* mbufs[16];
    while (sequence < 70000) { // beyond the 16 bits of the RQ's counter
        const uint32_t first = sequence;
        for (uint32_t i = 0; i < 11; ++i)
            deliver(bytes_for(1 + (first + i) % 4));
        ASSERT_EQ(receive(mbufs, 16), 11u);
        for (uint32_t i = 0; i < 11; ++i)
            take(mbufs[i], first + i, bytes_for(1 + (first + i) % 4));
        ASSERT_LE(in_use(), 64u);
    }
    EXPECT_EQ(ring->counters.packets, sequence);
    EXPECT_EQ(ring->counters.nombuf, 0u);
}

/// Posting a WQE that got only some of its missing mbufs would put a hole in a packet.
TEST_P(Mlx5RxScatter, PoolRunsDryWithinAPacket) {
    start({.segments = 4, .pool_size = 70, .data_room = kNext}); // 6 spare
    rte_mbuf* held[16];
    for (int i = 0; i < 10; ++i)
        deliver(bytes_for(3));
    ASSERT_EQ(receive(held, 16), 10u);
    EXPECT_EQ(posted(), 6 + 2) << "the pool's last mbufs make two WQEs whole";
    EXPECT_EQ(ring->counters.nombuf, 8u * 3);
    EXPECT_EQ(in_use(), 70u);

    // Two mbufs are fewer than any WQE lacks. They stay in the pool.
    rte_mbuf* const tail = held[0]->next;
    held[0]->next = nullptr;
    held[0]->nb_segs = 1;
    rte_pktmbuf_free(tail);
    rte_mbuf* none[1];
    for (int i = 0; i < 3; ++i)
        ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(posted(), 8u);
    EXPECT_EQ(in_use(), 68u);
    EXPECT_EQ(ring->counters.nombuf, 8u * 3) << "each missing mbuf counts once";

    rte_pktmbuf_free(held[0]);
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(posted(), 9u);
    EXPECT_EQ(in_use(), 70u);

    // The received packets are intact, and so are the next ones.
    for (uint32_t i = 1; i < 10; ++i)
        take(held[i], i, bytes_for(3));
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(posted(), 16u);
    EXPECT_EQ(in_use(), 64u);
    EXPECT_EQ(ring->counters.nombuf, 8u * 3);
    for (uint32_t i = 0; i < 100; ++i) {
        deliver(bytes_for(1 + i % 4));
        ASSERT_EQ(receive(none, 1), 1u);
        take(none[0], 10 + i, bytes_for(1 + i % 4));
    }
}

TEST_P(Mlx5RxScatter, SmallestRingOfLongestPackets) {
    start({.segments = 32, .pool_size = 96, .data_room = kNext});
    EXPECT_EQ(rq->wqes(), 2u);
    EXPECT_EQ(in_use(), 64u);
    rte_mbuf* mbufs[2];
    for (uint32_t i = 1; i <= 32; ++i) {
        for (uint32_t n = 0; n < 2; ++n) {
            deliver(bytes_for(i));
            ASSERT_EQ(receive(mbufs, 2), 1u);
            take(mbufs[0], 2 * (i - 1) + n, bytes_for(i));
        }
        ASSERT_EQ(receive(mbufs, 2), 0u);
        ASSERT_EQ(posted(), 2u);
    }
    EXPECT_EQ(in_use(), 64u);
}

TEST_P(Mlx5RxScatter, QueueCountAndStatusAreOfDescriptors) {
    for (const bool compressed : {false, true}) {
        start({.segments = 4, .data_room = kNext, .cq_entries = 128, .compressed = compressed});
        const auto count = [&] { return rawqp::kMlx5Format.rx_queue_count(ring); };
        const auto status = [&](uint16_t i) {
            return rawqp::kMlx5Format.rx_descriptor_status(ring, i);
        };
        EXPECT_EQ(count(), 0u);
        EXPECT_EQ(status(0), RTE_ETH_RX_DESC_AVAIL);
        for (int i = 0; i < 3; ++i)
            deliver(60);
        EXPECT_EQ(count(), 12u);
        EXPECT_EQ(status(11), RTE_ETH_RX_DESC_DONE);
        EXPECT_EQ(status(12), RTE_ETH_RX_DESC_AVAIL);
        EXPECT_EQ(status(63), RTE_ETH_RX_DESC_AVAIL);
        EXPECT_EQ(status(64), -EINVAL);
        rte_mbuf* mbufs[4];
        ASSERT_EQ(receive(mbufs, 4), 3u); // too few for a refill
        rte_pktmbuf_free_bulk(mbufs, 3);
        EXPECT_EQ(count(), 0u);
        EXPECT_EQ(status(51), RTE_ETH_RX_DESC_AVAIL);
        EXPECT_EQ(status(52), RTE_ETH_RX_DESC_UNAVAIL);
        for (int i = 0; i < 13; ++i)
            deliver(bytes_for(4));
        EXPECT_EQ(count(), 52u) << "all that is posted";
        finish();
        consumed = 0;
    }
}

/// A port has one burst function: if one queue scatters, it serves the others as well.
TEST_P(Mlx5RxScatter, BurstOfAScatteringPortOnAPlainRing) {
    start();
    spec.segments = 4;
    burst = rawqp::kMlx5Format.rx_burst(spec);
    for (uint32_t i = 0; i < 12 * 16; ++i) { // refills
        deliver(60 + i);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        take(mbuf, i, 60 + i);
    }
    EXPECT_EQ(in_use(), 64u);
}

INSTANTIATE_TEST_SUITE_P(Readers, Mlx5RxScatter, testing::ValuesIn(kWidths));

// ---------------------------------------------------------------- buffer split

TEST_F(Mlx5Rx, SplitPacketsHaveEachSegmentFromItsPool) {
    const test_eal::Pool heads = test_eal::make_pool(100, 256);
    const test_eal::Pool bodies = test_eal::make_pool(400, 600);
    spec.split = {{heads.get(), 138, 64},
                  {bodies.get(), 20, 500},
                  {bodies.get(), 20, 500},
                  {bodies.get(), 20, 500}};
    start({.segments = 4});
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 16u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 3 * 16u);
    for (uint32_t round = 0; round < 300; ++round) {
        const uint32_t bytes = 1 + round * 5 % 1564;
        deliver(bytes);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        uint32_t left = bytes;
        for (const rte_mbuf* segment = mbuf; segment != nullptr; segment = segment->next) {
            const bool head = segment == mbuf;
            ASSERT_EQ(segment->pool, head ? heads.get() : bodies.get());
            ASSERT_EQ(segment->data_off, head ? 138 : 20);
            ASSERT_EQ(segment->data_len, std::min(left, head ? 64u : 500u));
            left -= segment->data_len;
        }
        take(mbuf, round, bytes);
    }
    finish();
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 0u);
}

TEST_F(Mlx5Rx, StartNamesThePoolThatIsTooSmall) {
    const test_eal::Pool heads = test_eal::make_pool(20, 256);
    const test_eal::Pool bodies = test_eal::make_pool(40, 600);
    spec.split = {{heads.get(), 128, 100},
                  {bodies.get(), 0, 600},
                  {bodies.get(), 0, 600},
                  {bodies.get(), 0, 600}};
    create({.segments = 4});
    const auto started = rawqp::kMlx5Format.rx_start(*ring);
    ASSERT_FALSE(started);
    EXPECT_THAT(started.error().what,
                testing::HasSubstr(fmt::format("mempool {} cannot fill the ring: 48 mbufs needed, "
                                               "40 free",
                                               bodies->name)));
    finish();
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 0u);
}

TEST_F(Mlx5Rx, SplitSegmentsComeBackWhenTheirPoolHasSome) {
    const test_eal::Pool heads = test_eal::make_pool(70, 256);
    const test_eal::Pool bodies = test_eal::make_pool(400, 600);
    spec.split = {{heads.get(), 128, 100}, {bodies.get(), 0, 600}};
    start({.segments = 2});
    std::vector<rte_mbuf*> held;
    for (uint32_t i = 0; i < 64; ++i) {
        deliver(300);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        held.push_back(mbuf);
    }
    EXPECT_GT(ring->counters.nombuf, 0u);
    for (uint32_t i = 0; i < held.size(); ++i)
        take(held[i], i, 300);
    rte_mbuf* none;
    EXPECT_EQ(receive(&none, 1), 0u); // refills
    deliver(300);
    ASSERT_EQ(receive(&none, 1), 1u);
    take(none, 64, 300);
    finish(); // before the pools are destroyed
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 0u);
}

} // namespace
} // namespace rings_test
