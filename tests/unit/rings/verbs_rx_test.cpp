// SPDX-License-Identifier: BSD-3-Clause
// Receive through verbs calls: what is posted, taken, refilled and counted.
#include "drivers/net/rawqp/flow_tag.hpp"
#include "tests/unit/rings/verbs_rx.hpp"

#include <gmock/gmock.h>

namespace rings_test {
namespace {

TEST_F(VerbsRx, StartPostsOneChain) {
    start();
    EXPECT_EQ(wq.calls, 1);
    ASSERT_EQ(wq.posted.size(), 64u);
    for (size_t i = 0; i < 64; ++i) {
        ASSERT_EQ(wq.posted[i].sges.size(), 1u);
        EXPECT_EQ(wq.posted[i].sges[0].length, RTE_MBUF_DEFAULT_DATAROOM);
        EXPECT_EQ(wq.posted[i].sges[0].lkey, FakeMrs::kLkey);
    }
    EXPECT_STREQ(burst.description, "verbs");
    EXPECT_EQ(rawqp::kVerbsFormat.rx_wc_flags({}),
              uint64_t{IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_FLOW_TAG});
}

TEST_F(VerbsRx, StartFailsWithoutLeak) {
    create({.pool_size = 40});
    const auto started = rawqp::kVerbsFormat.rx_start(*ring);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, ENOMEM);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
    EXPECT_EQ(wq.calls, 0);
}

TEST_F(VerbsRx, EveryBatchSize) {
    start();
    uint32_t seed = 0;
    for (uint16_t batch = 1; batch <= 64; ++batch) {
        const auto count = static_cast<uint16_t>(std::min<size_t>(batch, posted()));
        for (uint16_t i = 0; i < count; ++i)
            deliver(pattern(seed + i, 60u + i));
        rte_mbuf* mbufs[64];
        ASSERT_EQ(receive(mbufs, batch), count);
        for (uint16_t i = 0; i < count; ++i) {
            ASSERT_EQ(contents(mbufs[i]), pattern(seed + i, 60u + i));
            rte_pktmbuf_free(mbufs[i]);
        }
        seed += count;
        ASSERT_GT(posted(), 48u);
    }
    EXPECT_EQ(ring->counters.packets, seed);
    EXPECT_EQ(receive(nullptr, 0), 0u);
}

TEST_F(VerbsRx, TakesNoMoreThanAsked) {
    start();
    for (uint32_t i = 0; i < 5; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* mbufs[5];
    ASSERT_EQ(receive(mbufs, 2), 2u);
    EXPECT_EQ(cq.queue.size(), 3u);
    ASSERT_EQ(receive(mbufs + 2, 5), 3u);
    for (uint32_t i = 0; i < 5; ++i)
        EXPECT_EQ(contents(mbufs[i]), pattern(i, 64));
    rte_pktmbuf_free_bulk(mbufs, 5);
}

TEST_F(VerbsRx, ShortPool) {
    start({.pool_size = 70});
    for (uint32_t i = 0; i < 40; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* mbufs[64];
    ASSERT_EQ(receive(mbufs, 64), 40u);
    EXPECT_EQ(posted(), 30u);
    EXPECT_EQ(ring->counters.nombuf, 34u);
    rte_mbuf* none[1];
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(ring->counters.nombuf, 34u);
    rte_pktmbuf_free_bulk(mbufs, 40);
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(posted(), 64u);
    expect_traffic(100);
}

/// Mbufs in the lcore's cache are posted before the pool is considered empty.
TEST_F(VerbsRx, ShortPoolWithACache) {
    start({.pool_size = 70, .cache = 16});
    rte_mbuf* none[1];
    for (uint32_t round = 0; round < 20; ++round) {
        rte_mbuf* mbufs[64];
        for (uint32_t i = 0; i < 40; ++i)
            deliver(pattern(i, 64));
        ASSERT_EQ(receive(mbufs, 64), 40u);
        ASSERT_EQ(receive(none, 1), 0u);
        EXPECT_EQ(posted(), 30u);
        for (uint32_t i = 0; i < 30; ++i)
            deliver(pattern(40 + i, 64));
        rte_mbuf* more[64];
        ASSERT_EQ(receive(more, 64), 30u);
        for (uint32_t i = 0; i < 40; ++i)
            ASSERT_EQ(contents(mbufs[i]), pattern(i, 64)) << "still the application's";
        for (uint32_t i = 0; i < 30; ++i)
            ASSERT_EQ(contents(more[i]), pattern(40 + i, 64));
        rte_pktmbuf_free_bulk(mbufs, 10); // some go into the cache
        ASSERT_EQ(receive(none, 1), 0u);
        EXPECT_EQ(posted(), 10u);
        rte_pktmbuf_free_bulk(mbufs + 10, 30);
        rte_pktmbuf_free_bulk(more, 30);
        ASSERT_EQ(receive(none, 1), 0u);
        EXPECT_EQ(posted(), 64u);
    }
}

/// Also where the chain wraps around the ring.
TEST_F(VerbsRx, AnyPartOfAChainMayBeRefused) {
    start();
    rte_mbuf* mbufs[64];
    for (uint16_t accepted = 0; accepted <= 24; ++accepted) {
        for (uint32_t i = 0; i < 40; ++i)
            deliver(pattern(i, 64));
        wq.accept = accepted;
        ASSERT_EQ(receive(mbufs, 64), 40u);
        for (uint32_t i = 0; i < 40; ++i)
            ASSERT_EQ(contents(mbufs[i]), pattern(i, 64));
        rte_pktmbuf_free_bulk(mbufs, 40);
        EXPECT_EQ(posted(), 24u + accepted);
        wq.accept = SIZE_MAX;
        ASSERT_EQ(receive(mbufs, 64), 0u);
        ASSERT_EQ(posted(), 64u) << accepted;
    }
}

TEST_F(VerbsRx, RefusedPostsAreRepeated) {
    start();
    wq.accept = 5;
    for (uint32_t i = 0; i < 20; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* mbufs[64];
    ASSERT_EQ(receive(mbufs, 64), 20u);
    rte_pktmbuf_free_bulk(mbufs, 20);
    EXPECT_EQ(posted(), 49u);
    for (uint32_t i = 0; i < 10; ++i)
        deliver(pattern(i, 64));
    ASSERT_EQ(receive(mbufs, 64), 10u);
    rte_pktmbuf_free_bulk(mbufs, 10);
    EXPECT_EQ(posted(), 39u);
    wq.accept = SIZE_MAX;
    ASSERT_EQ(receive(mbufs, 64), 0u);
    EXPECT_EQ(posted(), 64u);
    expect_traffic(200);
    EXPECT_EQ(ring->counters.nombuf, 0u) << "the pool had them all";
}

TEST_F(VerbsRx, ARestartForgetsAShortage) {
    start({.pool_size = 70});
    for (uint64_t shortage = 1; shortage < 3; ++shortage) {
        for (uint32_t i = 0; i < 40; ++i)
            deliver(pattern(i, 64));
        rte_mbuf* held[64];
        ASSERT_EQ(receive(held, 64), 40u);
        EXPECT_EQ(ring->counters.nombuf, 34 * shortage);
        rte_pktmbuf_free_bulk(held, 40);
        rawqp::kVerbsFormat.rx_stop(*ring);
        on_reset();
        ASSERT_TRUE(rawqp::kVerbsFormat.rx_start(*ring));
    }
}

/// Nothing would ever complete, so nobody may wait for it.
TEST_F(VerbsRx, AnEmptyQueueIsFilledOrNotArmed) {
    start({.pool_size = 64});
    for (uint32_t i = 0; i < 64; ++i)
        deliver(pattern(i, 64));
    rte_mbuf* held[64];
    ASSERT_EQ(receive(held, 64), 64u);
    ASSERT_EQ(posted(), 0u);
    EXPECT_EQ(rawqp::kVerbsFormat.rx_arm(*ring), EAGAIN);
    rte_pktmbuf_free_bulk(held, 64);
    EXPECT_EQ(cq.armed, 0);
    EXPECT_EQ(rawqp::kVerbsFormat.rx_arm(*ring), 0);
    EXPECT_EQ(cq.armed, 1);
    EXPECT_EQ(posted(), 64u);
}

constexpr uint16_t kFirst = 256; // bytes of a scattered packet's first mbuf
constexpr uint16_t kNext = kFirst + RTE_PKTMBUF_HEADROOM;
constexpr size_t bytes_for(unsigned mbufs) { return kFirst + (mbufs - 1) * size_t{kNext}; }

TEST_F(VerbsRx, DescriptorsAreTheSegmentsOfTheRequests) {
    start({.segments = 4, .data_room = kNext});
    EXPECT_STREQ(burst.description, "verbs, scattered");
    ASSERT_EQ(wq.posted.size(), 16u);
    for (const auto& request : wq.posted) {
        ASSERT_EQ(request.sges.size(), 4u);
        for (size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(request.sges[i].length, i == 0 ? kFirst : kNext);
            EXPECT_EQ(request.sges[i].lkey, FakeMrs::kLkey);
        }
    }
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
}

TEST_F(VerbsRx, ScatteredEverySize) {
    start({.segments = 4, .data_room = kNext});
    for (size_t bytes = 60; bytes <= bytes_for(4); ++bytes) {
        expect_traffic(1, bytes);
        ASSERT_LE(rte_mempool_in_use_count(pool.get()), 64u);
    }
}

TEST_F(VerbsRx, OnlyWhatAPacketFillsIsReplaced) {
    start({.segments = 8, .data_room = kNext});
    for (const unsigned mbufs : {1u, 2u, 3u, 4u, 5u, 8u}) {
        rte_mbuf* packets[2]; // a quarter of the ring: refilled
        for (uint32_t i = 0; i < 2; ++i)
            deliver(pattern(i, bytes_for(mbufs)));
        ASSERT_EQ(receive(packets, 2), 2u);
        EXPECT_EQ(posted(), 8u);
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u + 2 * mbufs);
        for (uint32_t i = 0; i < 2; ++i) {
            EXPECT_EQ(packets[i]->nb_segs, mbufs);
            EXPECT_EQ(contents(packets[i]), pattern(i, bytes_for(mbufs)));
        }
        rte_pktmbuf_free_bulk(packets, 2);
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
    }
}

TEST_F(VerbsRx, PoolRunsDryWithinAPacket) {
    start({.segments = 4, .pool_size = 70, .data_room = kNext}); // 6 spare
    for (uint32_t i = 0; i < 10; ++i)
        deliver(pattern(i, bytes_for(3)));
    rte_mbuf* held[16];
    ASSERT_EQ(receive(held, 16), 10u);
    EXPECT_EQ(posted(), 6u + 2) << "the pool's last mbufs make two requests whole";
    EXPECT_EQ(ring->counters.nombuf, 8u * 3);
    for (uint32_t i = 0; i < 10; ++i)
        EXPECT_EQ(contents(held[i]), pattern(i, bytes_for(3)));
    rte_pktmbuf_free_bulk(held, 10);
    rte_mbuf* none[1];
    ASSERT_EQ(receive(none, 1), 0u);
    EXPECT_EQ(posted(), 16u);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
    EXPECT_EQ(ring->counters.nombuf, 8u * 3);
    expect_traffic(100, bytes_for(4));
}

TEST_F(VerbsRx, SmallestRingOfLongestPackets) {
    start({.segments = 32, .pool_size = 96, .data_room = kNext});
    EXPECT_EQ(posted(), 2u);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
    for (unsigned mbufs = 1; mbufs <= 32; ++mbufs)
        expect_traffic(3, bytes_for(mbufs));
}

TEST_F(VerbsRx, Marks) {
    start({.mark = true});
    const Bytes frame = pattern(1, 64);
    deliver(frame, {.tag = rawqp::kFlowTagNone});
    EXPECT_EQ(receive_one(frame).first, 0u);
    deliver(frame, {.tag = rawqp::kFlowTagFlag});
    EXPECT_EQ(receive_one(frame).first, RTE_MBUF_F_RX_FDIR);
    deliver(frame, {.tag = rawqp::tag_of_mark(77)});
    EXPECT_EQ(receive_one(frame).first, RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID);
    EXPECT_EQ(last_mark, 77u);
}

TEST_F(VerbsRx, NoMarksWithoutAReader) {
    cq.handle.read_flow_tag = nullptr;
    start({.mark = true});
    const Bytes frame = pattern(1, 64);
    deliver(frame, {.tag = rawqp::tag_of_mark(77)});
    EXPECT_EQ(receive_one(frame).first, 0u);
}

TEST_F(VerbsRx, StampsAreTicksOrRealTime) {
    for (const bool real : {false, true}) {
        spec.real_time = real;
        start({.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP});
        EXPECT_NE(rawqp::kVerbsFormat.rx_wc_flags(spec) &
                      (real ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
                            : IBV_WC_EX_WITH_COMPLETION_TIMESTAMP),
                  0u);
        const int offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
        ASSERT_GE(offset, 0);
        deliver(pattern(1, 64), {.ticks = 0x1122334455667788, .wallclock_ns = 1'800'000'000'000});
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(*RTE_MBUF_DYNFIELD(mbuf, offset, uint64_t*),
                  real ? 1'800'000'000'000u : 0x1122334455667788u);
        const int bit = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, nullptr);
        ASSERT_GE(bit, 0);
        EXPECT_EQ(mbuf->ol_flags, RTE_BIT64(bit));
        rte_pktmbuf_free(mbuf);
        if (!real) end();
    }
}

TEST_F(VerbsRx, KeptChecksumIsNoPartOfThePacket) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_KEEP_CRC});
    deliver(pattern(1, 68));
    receive_one(pattern(1, 64));
    EXPECT_EQ(ring->counters.bytes, 64u);
}

TEST_F(VerbsRx, RefusesStampsThatTheProviderLacks) {
    cq.handle.read_completion_wallclock_ns = nullptr;
    pool = test_eal::make_pool(256);
    spec.cq = &cq.handle;
    spec.wq = &wq.handle;
    spec.descriptors = kDescriptors;
    spec.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    spec.real_time = true;
    spec.pool = pool.get();
    spec.mrs = &mrs.table;
    const auto created = rawqp::kVerbsFormat.rx_create(spec);
    ASSERT_FALSE(created);
    EXPECT_NE(created.error().what.find("no real-time stamps"), std::string::npos);
}

TEST_F(VerbsRx, SplitPacketsHaveEachSegmentFromItsPool) {
    const test_eal::Pool heads = test_eal::make_pool(100, 256);
    const test_eal::Pool bodies = test_eal::make_pool(400, 600);
    spec.split = {{heads.get(), 138, 20},
                  {bodies.get(), 16, 500},
                  {bodies.get(), 16, 500},
                  {bodies.get(), 16, 500}};
    start({.segments = 4, .offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 16u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 3 * 16u);
    for (uint32_t round = 0; round < 300; ++round) {
        const uint32_t bytes = 14 + round * 5 % 1506;
        const Bytes frame = pattern(round, bytes);
        deliver(frame);
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(contents(mbuf), frame);
        uint32_t left = bytes;
        for (const rte_mbuf* segment = mbuf; segment != nullptr; segment = segment->next) {
            const bool head = segment == mbuf;
            ASSERT_EQ(segment->pool, head ? heads.get() : bodies.get());
            ASSERT_EQ(segment->data_off, head ? 138 : 16);
            ASSERT_EQ(segment->data_len, std::min(left, head ? 20u : 500u));
            left -= segment->data_len;
        }
        rte_pktmbuf_free(mbuf);
    }
    end();
    EXPECT_EQ(rte_mempool_in_use_count(heads.get()), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 0u);
}

/// `frame` with an 802.1Q tag after the addresses.
Bytes tagged(Bytes frame, uint16_t tci) {
    const Bytes tag{0x81, 0x00, static_cast<uint8_t>(tci >> 8), static_cast<uint8_t>(tci)};
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
    return frame;
}

constexpr uint64_t kStripped = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;

TEST_F(VerbsRx, StrippedTags) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP});
    const Bytes frame = pattern(1, 64);
    for (const uint16_t tci : {0x0000, 0x1001, 0xe000, 0x0fff}) { // zero is a valid tag
        deliver(tagged(frame, tci));
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(receive(&mbuf, 1), 1u);
        EXPECT_EQ(mbuf->ol_flags, kStripped) << tci;
        EXPECT_EQ(mbuf->vlan_tci, tci);
        EXPECT_EQ(contents(mbuf), frame);
        EXPECT_EQ(mbuf->data_len, frame.size());
        rte_pktmbuf_free(mbuf);
    }
    EXPECT_EQ(ring->counters.bytes, 4 * frame.size());
    deliver(frame);
    EXPECT_EQ(receive_one(frame).first, 0u);
}

TEST_F(VerbsRx, WhatEndsWithinItsTagStaysWhole) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP});
    Bytes frame = tagged(pattern(1, 64), 7);
    for (const size_t bytes : {14, 17}) {
        frame.resize(bytes);
        deliver(frame);
        EXPECT_EQ(receive_one(frame).first, 0u) << bytes;
        frame = tagged(pattern(1, 64), 7);
    }
}

TEST_F(VerbsRx, OnlyTheOuterTagIsStripped) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP});
    const Bytes inner = tagged(pattern(1, 64), 7);
    deliver(tagged(inner, 9));
    EXPECT_EQ(receive_one(inner).first, kStripped);
}

TEST_F(VerbsRx, StrippingOfScatteredPackets) {
    start({.segments = 4,
           .data_room = 256 + RTE_PKTMBUF_HEADROOM,
           .offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP});
    const Bytes frame = pattern(1, 1000);
    deliver(tagged(frame, 0));
    EXPECT_EQ(receive_one(frame).first, kStripped);
    expect_traffic(100, 1000); // the mbufs were left in a valid state
}

/// The burst function remains the one chosen without stripping.
TEST_F(VerbsRx, StrippingBeginsAndEndsAtRunTime) {
    start();
    const Bytes frame = pattern(1, 64);
    const auto flags_of = [&](const Bytes& sent, const Bytes& received) {
        deliver(sent);
        return receive_one(received).first;
    };
    EXPECT_EQ(flags_of(tagged(frame, 5), tagged(frame, 5)), 0u);
    ring->tell_all = true;
    ASSERT_TRUE(rawqp::kVerbsFormat.rx_strip_vlan(*ring, true));
    EXPECT_EQ(flags_of(tagged(frame, 5), frame), kStripped);
    ASSERT_TRUE(rawqp::kVerbsFormat.rx_strip_vlan(*ring, false));
    EXPECT_EQ(flags_of(tagged(frame, 5), tagged(frame, 5)), 0u);
}

TEST_F(VerbsRx, NoTagCanBeStrippedFromASplitHeader) {
    pool = test_eal::make_pool(256);
    spec.split = {{pool.get(), 128, 17}, {pool.get(), 0, 1000}};
    spec.segments = 2;
    spec.cq = &cq.handle;
    spec.wq = &wq.handle;
    spec.descriptors = kDescriptors;
    spec.pool = pool.get();
    spec.mrs = &mrs.table;
    spec.offloads = RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
    const auto refused = rawqp::kVerbsFormat.rx_create(spec);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOTSUP);
    EXPECT_THAT(refused.error().what, testing::HasSubstr("has 17 bytes"));
    spec.split[0].room = 18;
    const auto created = rawqp::kVerbsFormat.rx_create(spec);
    ASSERT_TRUE(created) << created.error().what;
    rawqp::kVerbsFormat.rx_destroy(*created);
}

TEST_F(VerbsRx, StopAndStartAgain) {
    start();
    for (int round = 0; round < 4; ++round) {
        expect_traffic(50);
        deliver(pattern(0, 64));
        cq.queue.push_back({.status = IBV_WC_WR_FLUSH_ERR});
        EXPECT_EQ(rawqp::kVerbsFormat.rx_stop(*ring), 1u) << "received, never polled";
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        wq.posted.clear();
        filled = 0;
        ASSERT_TRUE(rawqp::kVerbsFormat.rx_start(*ring));
        EXPECT_TRUE(cq.queue.empty());
    }
}

} // namespace
} // namespace rings_test
