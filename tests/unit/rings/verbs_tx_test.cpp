// SPDX-License-Identifier: BSD-3-Clause
// Send through verbs calls.
#include "tests/unit/rings/verbs_tx.hpp"

namespace rings_test {
namespace {

using namespace std::literals;

/// As applications register it for net_mlx5.
constexpr rte_mbuf_dynflag kNoInline{.name = "mlx5_fine_granularity_inline", .flags = 0};

TEST_P(VerbsTx, EveryBatchSizeInOneCallEach) {
    start();
    EXPECT_EQ(burst.description,
              GetParam() ? "verbs, work requests, multi-segment"sv : "verbs, multi-segment"sv);
    uint32_t seed = 0;
    uint64_t bytes = 0;
    int calls = 0;
    for (int lap = 0; lap < 40; ++lap) {
        for (uint16_t batch = 1; batch <= 48; ++batch) {
            std::vector<rte_mbuf*> packets;
            for (uint16_t i = 0; i < batch; ++i)
                packets.push_back(packet(seed + i, {static_cast<uint16_t>(60 + i)}));
            ASSERT_EQ(send(packets), batch);
            ASSERT_EQ(qp.calls, ++calls);
            for (uint16_t i = 0; i < batch; ++i) {
                ASSERT_EQ(execute(), expected(seed + i, 60u + i));
                bytes += 60u + i;
            }
            seed += batch;
        }
    }
    EXPECT_EQ(ring->counters.packets, seed);
    EXPECT_EQ(ring->counters.bytes, bytes);
    send(nullptr, 0);
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(completions, calls) << "one per call";
}

/// Up to the error, if there is one; the stop may come before anybody has polled.
TEST_P(VerbsTx, AStopTakesWhatHasCompletedForSent) {
    start();
    for (uint32_t seed = 0; seed < 3; ++seed)
        ASSERT_EQ(send({packet(seed, {64}), packet(seed, {64})}), 2u);
    for (int i = 0; i < 4; ++i)
        execute();
    ASSERT_EQ(completions, 2);
    break_queue(IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(rawqp::kVerbsFormat.tx_stop(*ring), 2u);
    EXPECT_EQ(ring->counters.packets, 4u);
    EXPECT_EQ(ring->counters.errors, 2u);
    EXPECT_EQ(in_use(), 0u);
    EXPECT_EQ(resets, 0);
}

TEST_P(VerbsTx, Segmentation) {
    start(kChecksums | RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    EXPECT_EQ(burst.description, GetParam() ? "verbs, work requests, multi-segment, checksum, TSO"sv
                                            : "verbs, multi-segment, checksum, TSO"sv);
    const std::vector<std::vector<uint16_t>> shapes = {
        {900}, {54, 800}, {55, 1}, {20, 34, 500}, {14, 20, 20, 100}};
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < shapes.size(); ++i) {
        packets.push_back(packet(i, shapes[i]));
        packets[i]->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
        packets[i]->l2_len = 14;
        packets[i]->l3_len = 20;
        packets[i]->l4_len = 20;
        packets[i]->tso_segsz = 500;
    }
    rte_mbuf* no_size = packet(0, {900});
    no_size->ol_flags = RTE_MBUF_F_TX_TCP_SEG;
    packets.push_back(no_size);
    packets.push_back(packet(9, {60}));
    ASSERT_EQ(send(packets), packets.size());
    EXPECT_EQ(ring->counters.errors, 1u);
    for (uint32_t i = 0; i < shapes.size(); ++i) {
        const auto& request = qp.posted[executed].request;
        EXPECT_EQ(request.opcode, IBV_WR_TSO);
        EXPECT_EQ(request.tso.hdr_sz, 54u);
        EXPECT_EQ(request.tso.mss, 500u);
        EXPECT_TRUE(request.send_flags & IBV_SEND_IP_CSUM);
        uint32_t bytes = 0;
        for (const uint16_t length : shapes[i])
            bytes += length;
        EXPECT_EQ(execute(), expected(i, bytes));
    }
    EXPECT_EQ(qp.posted[executed].request.opcode, IBV_WR_SEND);
    EXPECT_EQ(execute(), expected(9, 60));
    EXPECT_EQ(rawqp::kVerbsFormat.tx_needs(spec).max_tso_header, 192u);
}

TEST_P(VerbsTx, FullRing) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 100; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets.data(), 100), 64u);
    ASSERT_EQ(send(packets.data() + 64, 36), 0u);
    execute_all();
    ASSERT_EQ(send(packets.data() + 64, 36), 36u);
    for (uint32_t i = 64; i < 100; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
}

TEST_P(VerbsTx, Segments) {
    start();
    uint32_t seed = 0;
    for (int round = 0; round < 30; ++round) {
        for (uint16_t segments = 1; segments <= 8; ++segments) {
            ASSERT_EQ(send({packet(seed, std::vector<uint16_t>(segments, 25))}), 1u);
            ASSERT_EQ(qp.posted.back().sges.size(), segments);
            ASSERT_EQ(execute(), expected(seed++, segments * 25u));
        }
    }
    ASSERT_EQ(send({packet(seed, {30, 0, 30})}), 1u);
    EXPECT_EQ(qp.posted.back().sges.size(), 2u);
}

TEST_P(VerbsTx, UnsendablePacketsAreDroppedAndCounted) {
    start();
    ASSERT_EQ(send({packet(0, {64}), packet(1, std::vector<uint16_t>(9, 20)), packet(2, {13}),
                    packet(3, {0}), packet(4, {64})}),
              5u);
    EXPECT_EQ(ring->counters.errors, 3u);
    EXPECT_EQ(ring->counters.packets, 2u);
    EXPECT_EQ(execute(), expected(0, 64));
    EXPECT_EQ(execute(), expected(4, 64));
    mrs.refuse = true;
    mrs.unregister();
    ASSERT_EQ(send({packet(5, {64})}), 1u);
    EXPECT_EQ(ring->counters.errors, 4u);
    EXPECT_EQ(in_use(), 0u);
}

/// ibv_post_send reports where it stopped, ibv_wr_complete takes all or nothing.
TEST_P(VerbsTx, ProviderRefusesRequests) {
    start();
    qp.accept = 7;
    const uint32_t sent = GetParam() ? 0 : 7;
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 20; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets), 20u);
    EXPECT_EQ(ring->counters.packets, sent);
    EXPECT_EQ(ring->counters.bytes, sent * 64);
    EXPECT_EQ(ring->counters.errors, 20 - sent);
    EXPECT_EQ(in_use(), sent);
    qp.accept = SIZE_MAX;
    for (uint32_t i = 0; i < sent; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
    for (int round = 0; round < 10; ++round) {
        std::vector<rte_mbuf*> more;
        for (uint32_t i = 0; i < 20; ++i)
            more.push_back(packet(i, {64}));
        ASSERT_EQ(send(more), 20u);
        execute_all();
    }
    send(nullptr, 0);
    EXPECT_EQ(in_use(), 0u);
}

TEST_P(VerbsTx, ProviderRefusesPacketsOfSeveralSegments) {
    start();
    qp.accept = 7;
    const uint32_t sent = GetParam() ? 0 : 7;
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 20; ++i)
        packets.push_back(packet(i, {30, 20, 14}));
    ASSERT_EQ(send(packets), 20u);
    EXPECT_EQ(in_use(), 3 * sent);
    qp.accept = SIZE_MAX;
    ASSERT_EQ(send({packet(20, {64})}), 1u);
    for (uint32_t i = 0; i < sent; ++i)
        ASSERT_EQ(execute(), expected(i, 64));
    ASSERT_EQ(execute(), expected(20, 64));
    send(nullptr, 0);
    EXPECT_EQ(in_use(), 0u);
}

TEST_P(VerbsTx, ShortPacketsAreInlined) {
    const int flag = rte_mbuf_dynflag_register(&kNoInline);
    ASSERT_GE(flag, 0);
    spec.inline_bytes = 100;
    for (const uint64_t offloads : {uint64_t{0}, uint64_t{RTE_ETH_TX_OFFLOAD_MULTI_SEGS}}) {
        start(offloads);
        const auto inlined = [&] {
            return (qp.posted.back().request.send_flags & IBV_SEND_INLINE) != 0;
        };
        for (const uint16_t length : {14, 60, 99, 100, 101, 500}) {
            ASSERT_EQ(send({packet(1, {length})}), 1u);
            EXPECT_EQ(inlined(), length <= 100) << length;
            EXPECT_EQ(execute(), expected(1, length));
        }
        rte_mbuf* const unwilling = packet(2, {60});
        unwilling->ol_flags |= RTE_BIT64(flag);
        ASSERT_EQ(send({unwilling}), 1u);
        EXPECT_FALSE(inlined());
        EXPECT_EQ(execute(), expected(2, 60));
        if (offloads != 0) {
            ASSERT_EQ(send({packet(3, {20, 30, 50})}), 1u);
            EXPECT_TRUE(inlined());
            EXPECT_EQ(execute(), expected(3, 100));
        }
        EXPECT_EQ(rawqp::kVerbsFormat.tx_needs(spec).cap.max_inline_data, 100u);
        TearDown();
        ring = nullptr;
    }
}

TEST_P(VerbsTx, RunsAreCompletedOneByOne) {
    spec.descriptors = 256;
    start(0);
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 200; ++i)
        packets.push_back(packet(i, {64}));
    packets[100]->data_len = 13; // a runt ends a run of requests
    packets[100]->pkt_len = 13;
    ASSERT_EQ(send(packets), 200u);
    EXPECT_EQ(qp.calls, 4);
    EXPECT_EQ(ring->counters.errors, 1u);
    for (uint32_t i = 0; i < 200; ++i) {
        if (i == 100) continue;
        ASSERT_EQ(execute(), expected(i, 64));
    }
    EXPECT_EQ(completions, 4);
    send(nullptr, 0);
    EXPECT_EQ(in_use(), 0u);
}

TEST_P(VerbsTx, ErrorCountsTheLostAndResets) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 30; ++i)
        packets.push_back(
            packet(i, i % 2 == 0 ? std::vector<uint16_t>{64} : std::vector<uint16_t>{30, 70}));
    ASSERT_EQ(send(packets), 30u);
    for (int i = 0; i < 11; ++i)
        execute();
    break_queue(IBV_WC_LOC_PROT_ERR);
    ASSERT_EQ(send({packet(0, {64})}), 1u);
    EXPECT_EQ(resets, 1);
    EXPECT_EQ(ring->counters.recoveries, 1u);
    EXPECT_EQ(ring->counters.errors, 19u);
    EXPECT_EQ(ring->counters.packets, 12u);
    EXPECT_EQ(ring->counters.bytes, 6u * 64 + 5 * 100 + 64);
    EXPECT_EQ(in_use(), 1u);
    EXPECT_TRUE(cq.queue.empty());
}

/// A queue that was set up before TSO was configured, next to one that was set up afterwards.
TEST_P(VerbsTx, AQueueWithoutSegmentationSegmentsNothing) {
    start();
    rawqp::TxSpec combined = spec;
    combined.offloads |= RTE_ETH_TX_OFFLOAD_TCP_TSO;
    burst = rawqp::kVerbsFormat.tx_burst(combined);
    rte_mbuf* const large = packet(0, {40, 14, 1000}); // its header is in two mbufs
    large->ol_flags = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM;
    large->l2_len = 14;
    large->l3_len = large->l4_len = 20;
    large->tso_segsz = 500;
    ASSERT_EQ(send({large, packet(1, {64})}), 2u);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(execute(), expected(1, 64));
}

/// A stale lkey may be what broke the queue, or be from before a stop.
TEST_P(VerbsTx, LkeysAreLookedUpAnew) {
    start();
    const auto lkey = [&] {
        EXPECT_EQ(send({packet(0, {64})}), 1u);
        return qp.posted.back().sges[0].lkey;
    };
    EXPECT_EQ(lkey(), FakeMrs::kLkey);
    mrs.split = 1; // everything has a different lkey now
    break_queue(IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(lkey(), FakeMrs::kLkey + 1);
    EXPECT_EQ(resets, 1);
    mrs.split = 0;
    rawqp::kVerbsFormat.tx_stop(*ring);
    forget();
    rawqp::kVerbsFormat.tx_start(*ring);
    EXPECT_EQ(lkey(), FakeMrs::kLkey);
}

TEST_P(VerbsTx, AStoppedQueueHasNothingToCleanUp) {
    const auto send_some = [this] {
        for (uint32_t i = 0; i < 20; ++i)
            ASSERT_EQ(send({packet(i, {64})}), 1u);
    };
    start();
    send_some();
    execute_all();
    stop_look_and_start();
    send_some();
    break_queue(IBV_WC_LOC_PROT_ERR);
    reset_result = -EIO;
    ASSERT_EQ(send(nullptr, 0), 0u);
    stop_look_and_start();
    ASSERT_EQ(send({packet(7, {64})}), 1u);
    EXPECT_EQ(execute(), expected(7, 64));
}

TEST_P(VerbsTx, FailingResetTakesNothing) {
    start();
    ASSERT_EQ(send({packet(0, {64})}), 1u);
    break_queue(IBV_WC_LOC_QP_OP_ERR);
    reset_result = -EIO;
    rte_mbuf* kept = packet(0, {64});
    while (resets < 3)
        ASSERT_EQ(send(&kept, 1), 0u);
    EXPECT_EQ(ring->counters.errors, 1u);
    reset_result = 0;
    while (send(&kept, 1) == 0)
        ;
    EXPECT_EQ(execute(), expected(0, 64));
}

/// It would wait forever: the ring never has that much room.
TEST_P(VerbsTx, AChainThatIsTooLongIsDroppedBeforeTheRingHasRoom) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 56; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets), 56u); // room for eight segments
    ASSERT_EQ(send({packet(56, std::vector<uint16_t>(9, 20)), packet(57, {64})}), 2u);
    EXPECT_EQ(ring->counters.errors, 1u);
    execute_all();
}

/// Fast free is for packets of one mbuf: those of a chain are freed as without it.
TEST_P(VerbsTx, ChainsAreTakenApartWhateverWasPromised) {
    start(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE | RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
    ASSERT_EQ(send({packet(0, {30, 40, 50}), packet(1, {64})}), 2u);
    execute_all();
    send(nullptr, 0);
    ASSERT_EQ(in_use(), 0u);
    std::vector<rte_mbuf*> all(pool->size);
    ASSERT_EQ(rte_mempool_get_bulk(pool.get(), reinterpret_cast<void**>(all.data()), pool->size),
              0);
    for (rte_mbuf* mbuf : all) { // as they must be when allocated raw
        EXPECT_EQ(mbuf->next, nullptr);
        EXPECT_EQ(mbuf->nb_segs, 1);
        rte_mempool_put(pool.get(), mbuf);
    }
}

TEST_P(VerbsTx, StatusCleanupStop) {
    start(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
    for (int round = 0; round < 3; ++round) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < 32; ++i)
            packets.push_back(packet(i, {64}));
        ASSERT_EQ(send(packets.data(), 16), 16u);
        ASSERT_EQ(send(packets.data() + 16, 16), 16u);
        EXPECT_EQ(rawqp::kVerbsFormat.tx_descriptor_status(ring, 32), RTE_ETH_TX_DESC_FULL);
        EXPECT_EQ(rawqp::kVerbsFormat.tx_descriptor_status(ring, 31), RTE_ETH_TX_DESC_DONE);
        execute_all();
        EXPECT_EQ(rawqp::kVerbsFormat.tx_done_cleanup(ring, 17), 17);
        EXPECT_EQ(in_use(), 15u);
        EXPECT_EQ(rawqp::kVerbsFormat.tx_descriptor_text(*ring, 49),
                  fmt::format("descriptor 49: completed, mbuf {} is to be freed\n",
                              fmt::ptr(packets[17])));
        EXPECT_EQ(rawqp::kVerbsFormat.tx_stop(*ring), 0u);
        EXPECT_EQ(in_use(), 0u);
        rawqp::kVerbsFormat.tx_start(*ring);
        EXPECT_TRUE(cq.queue.empty());
    }
}

TEST_P(VerbsTx, CleanupCountsPackets) {
    start();
    for (uint32_t i = 0; i < 3; ++i)
        ASSERT_EQ(send({packet(i, {20, 20, 30}), packet(i, {64})}), 2u);
    execute_all();
    EXPECT_EQ(rawqp::kVerbsFormat.tx_done_cleanup(ring, 1), 1);
    EXPECT_EQ(in_use(), 9u);
    EXPECT_EQ(rawqp::kVerbsFormat.tx_done_cleanup(ring, 0), 5) << "of 9 mbufs";
    EXPECT_EQ(in_use(), 0u);
}

/// What a clean-up with a limit leaves is freed when nothing more is reported, too.
TEST_P(VerbsTx, CleanupFreesNoMoreThanAsked) {
    start();
    for (int round = 0; round < 10; ++round) {
        std::vector<rte_mbuf*> packets;
        for (uint32_t i = 0; i < 32; ++i)
            packets.push_back(packet(i, {20, 50}));
        ASSERT_EQ(send(packets), 32u);
        execute_all();
        for (unsigned left : {64u, 54u, 44u}) {
            EXPECT_EQ(in_use(), left);
            EXPECT_EQ(rawqp::kVerbsFormat.tx_done_cleanup(ring, 5), 5);
        }
        EXPECT_EQ(send(nullptr, 0), 0u);
        EXPECT_EQ(in_use(), 0u);
    }
}

TEST_P(VerbsTx, AnErrorAfterACleanupWithALimit) {
    start();
    std::vector<rte_mbuf*> packets;
    for (uint32_t i = 0; i < 8; ++i)
        packets.push_back(packet(i, {64}));
    ASSERT_EQ(send(packets), 8u);
    execute_all();
    EXPECT_EQ(rawqp::kVerbsFormat.tx_done_cleanup(ring, 1), 1);
    ASSERT_EQ(send({packet(8, {64})}), 1u);
    EXPECT_EQ(in_use(), 1u) << "the burst has freed the others";
    break_queue(IBV_WC_LOC_PROT_ERR);
    EXPECT_EQ(send({packet(9, {64})}), 1u);
    EXPECT_EQ(in_use(), 1u);
    EXPECT_EQ(ring->counters.errors, 1u);
    EXPECT_EQ(ring->counters.packets, 9u);
}

INSTANTIATE_TEST_SUITE_P(, VerbsTx, testing::Bool(), way_of);

} // namespace
} // namespace rings_test
