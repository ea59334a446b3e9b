// SPDX-License-Identifier: BSD-3-Clause
// Receive on mapped mlx5 rings: what is posted, taken, refilled and counted.
#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "tests/unit/rings/mlx5_rx.hpp"

#include <set>

namespace rings_test {
namespace {

TEST_P(Mlx5RxReaders, StartPostsEveryWqe) {
    start();
    EXPECT_EQ(rq->doorbell.receive, 64u);
    std::set<uint64_t> addresses;
    for (const mlx5::WqeDataSeg& wqe : rq->ring) {
        EXPECT_EQ(wqe.byte_count, RTE_MBUF_DEFAULT_DATAROOM);
        EXPECT_EQ(wqe.lkey, FakeMrs::kLkey);
        addresses.insert(wqe.addr);
    }
    EXPECT_EQ(addresses.size(), 64u);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
    EXPECT_EQ(burst.description, reader_name(simd_bits));
}

TEST_P(Mlx5RxReaders, StartFailsWithoutLeakWhenThePoolIsSmall) {
    create({.pool_size = 63});
    const auto started = rawqp::kMlx5Format.rx_start(*ring);
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, ENOMEM);
    EXPECT_NE(started.error().what.find(pool->name), std::string::npos) << started.error().what;
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
    EXPECT_EQ(rq->doorbell.receive, 0u);
}

TEST_P(Mlx5RxReaders, StartFailsWithoutLeakWhenMemoryHasNoLkey) {
    create({});
    mrs.refuse = true;
    EXPECT_FALSE(rawqp::kMlx5Format.rx_start(*ring));
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
}

TEST_P(Mlx5RxReaders, ScatteredStartFailsWithoutLeakWhenMemoryHasNoLkey) {
    const test_eal::Pool bodies = test_eal::make_pool(100, 600);
    for (const bool split : {false, true}) {
        pool = test_eal::make_pool(100);
        if (split) spec.split = {{pool.get(), 128, 100}, {bodies.get(), 0, 600}};
        create({.own_pool = pool.get(), .segments = 2});
        mrs.refuse = true;
        EXPECT_FALSE(rawqp::kMlx5Format.rx_start(*ring));
        mrs.refuse = false;
        finish();
        EXPECT_EQ(rte_mempool_in_use_count(bodies.get()), 0u);
    }
}

TEST_P(Mlx5RxReaders, NothingThere) {
    start();
    rte_mbuf* mbufs[4];
    EXPECT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(rq->doorbell.receive, 64u);
    EXPECT_EQ(cq->doorbell.consumer, 0u);
}

TEST_P(Mlx5RxReaders, EveryBatchSize) {
    start();
    uint64_t packets = 0;
    uint64_t bytes = 0;
    for (uint16_t batch = 1; batch <= 64; ++batch) {
        const uint32_t first = sequence;
        const uint16_t count = std::min(batch, posted());
        for (uint16_t i = 0; i < count; ++i)
            deliver(60 + i);
        rte_mbuf* mbufs[64];
        ASSERT_EQ(receive(mbufs, batch), count);
        for (uint16_t i = 0; i < count; ++i)
            take(mbufs[i], first + i, 60u + i);
        packets += count;
        bytes += count * 60u + count * (count - 1u) / 2;
        ASSERT_LE(packets - cq->doorbell.consumer, uint32_t{64} - posted())
            << "a CQ entry for each posted WQE";
        ASSERT_GT(posted(), 64 - 16) << "refills come in batches of 16 for a ring of 64";
    }
    EXPECT_EQ(ring->counters.packets, packets);
    EXPECT_EQ(ring->counters.bytes, bytes);
    EXPECT_EQ(ring->counters.nombuf, 0u);
}

TEST_P(Mlx5RxReaders, BurstTakesNoMoreThanAsked) {
    start();
    for (int i = 0; i < 10; ++i)
        deliver(100);
    rte_mbuf* mbufs[10];
    ASSERT_EQ(receive(mbufs, 4), 4u);
    ASSERT_EQ(receive(mbufs + 4, 10), 6u);
    for (uint32_t i = 0; i < 10; ++i)
        take(mbufs[i], i, 100);
}

TEST_P(Mlx5RxReaders, CountersAndOwnerBitWrapAround) {
    start({.cq_entries = 128}); // laps of CQ and RQ differ
    rte_mbuf* mbufs[32];
    while (sequence < 70000) { // beyond the 16 bits of the RQ's counter
        const uint32_t first = sequence;
        for (int i = 0; i < 23; ++i)
            deliver(64);
        ASSERT_EQ(receive(mbufs, 32), 23u);
        for (uint32_t i = 0; i < 23; ++i)
            take(mbufs[i], first + i, 64);
    }
    EXPECT_LT(sequence - cq->doorbell.consumer, 16u) << "given back with a refill";
    EXPECT_EQ(ring->counters.packets, sequence);
}

TEST_P(Mlx5RxReaders, OneDoorbellPerBurst) {
    start();
    for (int i = 0; i < 15; ++i)
        deliver(64);
    rte_mbuf* mbufs[32];
    ASSERT_EQ(receive(mbufs, 32), 15u);
    EXPECT_EQ(rq->doorbell.receive, 64u) << "below the refill batch";
    rte_pktmbuf_free_bulk(mbufs, 15);
    deliver(64);
    ASSERT_EQ(receive(mbufs, 32), 1u);
    EXPECT_EQ(rq->doorbell.receive, 80u);
    rte_pktmbuf_free_bulk(mbufs, 1);
}

TEST_P(Mlx5RxReaders, StopAndStartAgain) {
    start();
    for (int round = 0; round < 5; ++round) {
        const uint32_t first = sequence;
        for (int i = 0; i < 40; ++i)
            deliver(64);
        rte_mbuf* mbufs[32];
        ASSERT_EQ(receive(mbufs, 32), 32u); // 8 stay in the CQ
        for (uint32_t i = 0; i < 32; ++i)
            take(mbufs[i], first + i, 64);
        EXPECT_EQ(rawqp::kMlx5Format.rx_stop(*ring), 8u) << "received, never polled";
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        rq->doorbell = {};
        consumed = 0;
        ASSERT_TRUE(rawqp::kMlx5Format.rx_start(*ring));
        EXPECT_EQ(posted(), 64u);
        ASSERT_EQ(receive(mbufs, 32), 0u) << "completions of the former life are gone";
    }
    EXPECT_EQ(ring->counters.packets, 5u * 32);
    EXPECT_EQ(rawqp::kMlx5Format.rx_stop(*ring), 0u);
}

TEST_P(Mlx5RxReaders, ErrorCompletionsAreNotUnreadPackets) {
    start();
    deliver(64);
    deliver(64);
    for (uint16_t i = 2; i < 10; ++i)
        cq->write_error(mlx5::CqeOpcode::resp_error, mlx5::CqeSyndrome::flushed, i);
    EXPECT_EQ(rawqp::kMlx5Format.rx_stop(*ring), 2u);
}

TEST_P(Mlx5RxReaders, QueueCountAndDescriptorStatus) {
    start({.cq_entries = 128});
    const auto count = [&] { return rawqp::kMlx5Format.rx_queue_count(ring); };
    const auto status = [&](uint16_t i) {
        return rawqp::kMlx5Format.rx_descriptor_status(ring, i);
    };
    rte_mbuf* mbufs[64];
    for (int lap = 0; lap < 4; ++lap) {
        for (uint16_t waiting = 0; waiting <= 48; ++waiting) {
            ASSERT_EQ(count(), waiting);
            ASSERT_EQ(status(waiting), RTE_ETH_RX_DESC_AVAIL);
            if (waiting > 0) {
                ASSERT_EQ(status(static_cast<uint16_t>(waiting - 1)), RTE_ETH_RX_DESC_DONE);
            }
            if (waiting < 48) deliver(64);
        }
        ASSERT_EQ(receive(mbufs, 64), 48u);
        rte_pktmbuf_free_bulk(mbufs, 48);
    }
    for (int i = 0; i < 5; ++i)
        deliver(64);
    ASSERT_EQ(receive(mbufs, 64), 5u);
    rte_pktmbuf_free_bulk(mbufs, 5);
    EXPECT_EQ(status(58), RTE_ETH_RX_DESC_AVAIL);
    EXPECT_EQ(status(59), RTE_ETH_RX_DESC_UNAVAIL);
    EXPECT_EQ(status(64), -EINVAL);
}

TEST_P(Mlx5RxReaders, WholeRingCompletedAtOnce) {
    start();
    for (int i = 0; i < 64; ++i)
        deliver(64);
    EXPECT_EQ(rawqp::kMlx5Format.rx_queue_count(ring), 64u);
    rte_mbuf* mbufs[128];
    ASSERT_EQ(receive(mbufs, 128), 64u);
    for (uint32_t i = 0; i < 64; ++i)
        take(mbufs[i], i, 64);
    EXPECT_EQ(posted(), 64u);
}

TEST_P(Mlx5RxReaders, RealTimeFollowsTheKernelsClock) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP, .real_time = true});
    expect_real_time([&](const mlx5::Cqe& cqe) {
        deliver(64, cqe);
        return receive_one();
    });
}

TEST_P(Mlx5RxReaders, MonitorAddressTellsOfTheNextCompletion) {
    start({.cq_entries = 128});
    rte_mbuf* mbufs[64];
    for (int lap = 0; lap < 10; ++lap) {
        rte_power_monitor_cond condition{};
        ASSERT_EQ(rawqp::kMlx5Format.rx_monitor_addr(ring, &condition), 0);
        ASSERT_EQ(condition.size, 1);
        const auto value = [&] {
            return uint64_t{*static_cast<volatile uint8_t*>(condition.addr)};
        };
        ASSERT_EQ(condition.fn(value(), condition.opaque), 0) << "nothing there: sleep";
        for (int i = 0; i < 40; ++i)
            deliver(64);
        ASSERT_EQ(condition.fn(value(), condition.opaque), -1);
        ASSERT_EQ(receive(mbufs, 64), 40u);
        rte_pktmbuf_free_bulk(mbufs, 40);
    }
}

TEST_P(Mlx5RxReaders, ArmNamesTheConsumerIndexAndTheEventsTaken) {
    start();
    const auto armed = [&](uint32_t sequence) {
        EXPECT_EQ(rawqp::kMlx5Format.rx_arm(*ring), 0);
        const uint32_t word = sequence << 28 | (cq->doorbell.consumer & 0xffffff);
        EXPECT_EQ(cq->doorbell.arm, word);
        EXPECT_EQ(net::to_be(cq->uar[0x20 / 8]), uint64_t{word} << 32 | FakeCq::kNumber);
    };
    armed(0);
    rte_mbuf* mbufs[32];
    for (uint32_t events = 1; events < 9; ++events) {
        deliver(64);
        ASSERT_EQ(receive(mbufs, 32), 1u);
        rte_pktmbuf_free(mbufs[0]);
        rawqp::kMlx5Format.rx_event_taken(*ring);
        armed(events & 3); // the bits above these two are reserved
    }
}

/// The device sees 24 bits of the consumer index; other fields are above them.
TEST_P(Mlx5RxReaders, ConsumerIndexBeyondWhatTheDeviceKnows) {
    start();
    auto& place = static_cast<rawqp::mlx5rings::MlxRxRing&>(*ring).cq;
    place.consumer = cq->producer = 0x3000000 - 64;
    rte_mbuf* mbufs[32];
    for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t first = sequence;
        for (int k = 0; k < 16; ++k)
            deliver(64);
        ASSERT_EQ(receive(mbufs, 32), 16u);
        for (uint32_t k = 0; k < 16; ++k)
            take(mbufs[k], first + k, 64);
        EXPECT_EQ(cq->doorbell.consumer, cq->producer & 0xffffff);
        EXPECT_EQ(rawqp::kMlx5Format.rx_arm(*ring), 0);
        EXPECT_EQ(cq->doorbell.arm, cq->producer & 0xffffff);
    }
}

/// A CQE with inline data, which the driver has not asked for.
TEST_P(Mlx5RxReaders, ACqeOfAnotherFormatIsAnError) {
    start();
    deliver(64);
    cq->ring[0].op_own |= 1 << 2;
    rte_mbuf* mbufs[4];
    EXPECT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(resets, 1);
}

TEST_P(Mlx5RxReaders, TimeStampAndChecksumKept) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP | RTE_ETH_RX_OFFLOAD_KEEP_CRC});
    EXPECT_EQ(burst.description, reader_name(simd_bits) + ", offloads, CRC, time stamps");
    const int offset = rte_mbuf_dynfield_lookup(RTE_MBUF_DYNFIELD_TIMESTAMP_NAME, nullptr);
    const int bit = rte_mbuf_dynflag_lookup(RTE_MBUF_DYNFLAG_RX_TIMESTAMP_NAME, nullptr);
    ASSERT_GE(offset, 0);
    ASSERT_GE(bit, 0);
    mlx5::Cqe cqe{};
    cqe.timestamp = 0x1122334455667788;
    deliver(68, cqe);
    rte_mbuf* mbuf;
    ASSERT_EQ(receive(&mbuf, 1), 1u);
    EXPECT_EQ(*RTE_MBUF_DYNFIELD(mbuf, offset, uint64_t*), 0x1122334455667788u);
    EXPECT_NE(mbuf->ol_flags & uint64_t{1} << bit, 0u);
    EXPECT_EQ(ring->counters.bytes, 64u);
    take(mbuf, 0, 64); // the four bytes after the packet are the FCS
}

/// An lcore that has not noticed the stop yet posts no buffers: the start would forget them.
TEST_P(Mlx5RxReaders, PolledWhileStopped) {
    start();
    rawqp::kMlx5Format.rx_stop(*ring);
    rte_mbuf* mbuf = nullptr;
    EXPECT_EQ(receive(&mbuf, 1), 0u);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
    on_reset();
    ASSERT_TRUE(rawqp::kMlx5Format.rx_start(*ring));
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 64u);
    deliver(64);
    ASSERT_EQ(receive(&mbuf, 1), 1u);
    take(mbuf, 0, 64);
}

/// All queues of a port have one burst function, chosen for the queue that needs the most.
TEST_P(Mlx5RxReaders, BurstForAnotherQueuesTimeStamps) {
    start();
    spec.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP;
    burst = rawqp::kMlx5Format.rx_burst(spec);
    mlx5::Cqe cqe{};
    cqe.timestamp = 0x1122334455667788;
    for (uint32_t i = 0; i < 20; ++i)
        deliver(64, cqe);
    rte_mbuf* mbufs[20];
    ASSERT_EQ(receive(mbufs, 20), 20u);
    for (uint32_t i = 0; i < 20; ++i) {
        ASSERT_EQ(mbufs[i]->buf_addr, rte_mbuf_buf_addr(mbufs[i], mbufs[i]->pool));
        EXPECT_EQ(mbufs[i]->ol_flags, 0u);
        take(mbufs[i], i, 64);
    }
}

// ---------------------------------------------------------------- compressed blocks

std::vector<mlx5::MiniCqe> minis_of(uint32_t count, uint32_t bytes) {
    mlx5::MiniCqe mini;
    mini.result = 0;
    mini.byte_count = bytes;
    return std::vector<mlx5::MiniCqe>(count, mini);
}

TEST_P(Mlx5RxReaders, WhatIsLeftOfABlockIsCounted) {
    start({.cq_entries = 128, .compressed = true});
    deliver(64);
    deliver_block({}, minis_of(20, 64));
    deliver(64);
    const auto count = [&] { return rawqp::kMlx5Format.rx_queue_count(ring); };
    const auto status = [&](uint16_t i) {
        return rawqp::kMlx5Format.rx_descriptor_status(ring, i);
    };
    EXPECT_EQ(count(), 22u);
    rte_mbuf* mbufs[64];
    for (uint32_t left = 22; left > 0; --left) {
        EXPECT_EQ(status(static_cast<uint16_t>(left - 1)), RTE_ETH_RX_DESC_DONE);
        EXPECT_EQ(status(static_cast<uint16_t>(left)), RTE_ETH_RX_DESC_AVAIL);
        ASSERT_EQ(receive(mbufs, 1), 1u);
        take(mbufs[0], 22 - left, 64);
        ASSERT_EQ(count(), left - 1);
    }
    EXPECT_EQ(rawqp::kMlx5Format.rx_arm(*ring), 0); // entries are returned by now at the latest
    EXPECT_EQ(cq->doorbell.consumer, 22u);
}

/// More of the block follows, whatever the next entry looks like.
TEST_P(Mlx5RxReaders, NobodySleepsInTheMiddleOfABlock) {
    start({.cq_entries = 128, .compressed = true});
    deliver_block({}, minis_of(20, 64));
    rte_mbuf* mbufs[64];
    const auto sleeps = [&] {
        rte_power_monitor_cond condition{};
        EXPECT_EQ(rawqp::kMlx5Format.rx_monitor_addr(ring, &condition), 0);
        return condition.fn(kFreshOpOwn, condition.opaque) == 0;
    };
    ASSERT_EQ(receive(mbufs, 13), 13u);
    rte_pktmbuf_free_bulk(mbufs, 13);
    EXPECT_FALSE(sleeps());
    ASSERT_EQ(receive(mbufs, 13), 7u);
    rte_pktmbuf_free_bulk(mbufs, 7);
    EXPECT_TRUE(sleeps());
}

TEST_P(Mlx5RxReaders, ABlockLongerThanWhatIsPostedIsAnError) {
    start({.cq_entries = 128, .compressed = true});
    rte_mbuf* mbufs[4];
    deliver(64);
    ASSERT_EQ(receive(mbufs, 4), 1u);
    take(mbufs[0], 0, 64);
    ASSERT_EQ(posted(), 63u);
    cq->write_block({}, minis_of(64, 64));
    EXPECT_EQ(receive(mbufs, 4), 0u);
    EXPECT_EQ(resets, 1);
}

TEST_P(Mlx5RxReaders, StopInTheMiddleOfABlock) {
    start({.cq_entries = 128, .compressed = true});
    rte_mbuf* mbufs[64];
    for (int round = 0; round < 20; ++round) {
        const uint32_t first = sequence;
        deliver_block({}, minis_of(20, 64));
        deliver_block({}, minis_of(9, 64));
        ASSERT_EQ(receive(mbufs, 13), 13u);
        for (uint32_t i = 0; i < 13; ++i)
            take(mbufs[i], first + i, 64);
        EXPECT_EQ(rawqp::kMlx5Format.rx_stop(*ring), 16u);
        rq->doorbell = {};
        consumed = 0;
        ASSERT_TRUE(rawqp::kMlx5Format.rx_start(*ring));
        ASSERT_EQ(receive(mbufs, 32), 0u) << "no entry of the former life looks new";
    }
}

TEST_P(Mlx5RxReaders, ABlockThatNoDeviceWritesIsAnError) {
    for (const uint32_t count : {0u, 1u, 65u, 0x80000000u}) {
        SCOPED_TRACE(count);
        resets = 0;
        consumed = 0;
        spec = {};
        start({.cq_entries = 128, .compressed = true});
        cq->write_block({}, minis_of(2, 64));
        cq->ring[0].byte_count = count;
        rte_mbuf* mbufs[4];
        EXPECT_EQ(receive(mbufs, 4), 0u);
        EXPECT_EQ(resets, 1);
        EXPECT_EQ(ring->counters.errors, 1u);
        finish();
    }
}

INSTANTIATE_TEST_SUITE_P(Readers, Mlx5RxReaders, testing::ValuesIn(kWidths), kByWidth);

} // namespace
} // namespace rings_test
