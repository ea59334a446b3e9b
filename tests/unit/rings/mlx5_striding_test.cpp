// SPDX-License-Identifier: BSD-3-Clause
// Striding receive queues: copied and attached packets, and who holds which buffer for how long.
#include "tests/unit/rings/mlx5_striding.hpp"
#include "tests/unit/rings/pinned_pool.hpp"

#include <random>

namespace rings_test {
namespace {

unsigned count_mempools() {
    unsigned count = 0;
    rte_mempool_walk([](rte_mempool*, void* sum) { ++*static_cast<unsigned*>(sum); }, &count);
    return count;
}

class Mlx5Striding : public Mlx5StridingRing, public testing::WithParamInterface<unsigned> {
  protected:
    void SetUp() override {
        simd_bits = GetParam();
        SKIP_WITHOUT_VECTORS(simd_bits);
    }
    /// `unread`: packets that were not polled.
    void restart(uint32_t unread) {
        EXPECT_EQ(format.rx_stop(*ring), unread);
        consumed = used_ = 0;
        const auto again = format.rx_start(*ring);
        ASSERT_TRUE(again) << again.error().what;
    }
};

TEST_P(Mlx5Striding, SmallPacketsAreCopiedOthersAttached) {
    start();
    EXPECT_EQ(burst.description, name());
    for (const auto& [bytes, attached] : {std::pair{60u, false},
                                          {128u, false},
                                          {129u, true},
                                          {1514u, true},
                                          {kStrideBytes - RTE_PKTMBUF_HEADROOM, true},
                                          {kStrideBytes - RTE_PKTMBUF_HEADROOM + 1, false}}) {
        const uint32_t packet = sequence;
        deliver(bytes);
        rte_mbuf* const mbuf = receive_one();
        EXPECT_EQ(RTE_MBUF_HAS_EXTBUF(mbuf) != 0, attached) << bytes;
        EXPECT_EQ(rte_pktmbuf_headroom(mbuf), RTE_PKTMBUF_HEADROOM);
        EXPECT_EQ(rte_mbuf_refcnt_read(mbuf), 1);
        if (attached) {
            EXPECT_EQ(mbuf->buf_len, kStrideBytes) << "up to the next one's headroom";
        }
        take(mbuf, packet, bytes);
    }
    EXPECT_EQ(ring->counters.packets, 6u);
}

/// Applications may poll a queue with deferred start just as they poll a stopped one.
TEST_P(Mlx5Striding, AQueueThatHasNotStartedGivesNothing) {
    create({});
    rte_mbuf* mbuf = nullptr;
    EXPECT_EQ(receive(&mbuf, 1), 0u);
    EXPECT_EQ(posted(), 0u);
    ASSERT_TRUE(format.rx_start(*ring));
    deliver(60);
    take(receive_one(), 0, 60);
    stop();
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
}

TEST_P(Mlx5Striding, OfASocketWithoutMemoryBuffersAreOfAnother) {
    spec.socket = 1; // EAL has all of its memory on socket 0
    start();
    deliver(1000);
    take(receive_one(), 0, 1000);
}

/// The FCS follows the packet in the stride, and does not count in its length.
TEST_P(Mlx5Striding, KeptChecksums) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_KEEP_CRC});
    constexpr uint32_t kCrc = RTE_ETHER_CRC_LEN;
    uint64_t sum = 0;
    for (const auto& [bytes, attached] : {std::pair{64u, false},
                                          {kCopyBytes + kCrc, false},
                                          {kCopyBytes + kCrc + 1, true},
                                          {kStrideBytes - RTE_PKTMBUF_HEADROOM, true},
                                          {kStrideBytes - RTE_PKTMBUF_HEADROOM + 1, false}}) {
        const uint32_t packet = sequence;
        deliver(bytes);
        rte_mbuf* const mbuf = receive_one();
        EXPECT_EQ(RTE_MBUF_HAS_EXTBUF(mbuf) != 0, attached) << bytes;
        take(mbuf, packet, bytes - kCrc);
        sum += bytes - kCrc;
    }
    EXPECT_EQ(ring->counters.bytes, sum);
    complete(1u << 16 | (kCrc - 1), {}); // no device writes this
    rte_mbuf* none;
    EXPECT_EQ(receive(&none, 1), 0u);
    EXPECT_EQ(resets, 1);
}

TEST_P(Mlx5Striding, WhatIsTooLongIsAnError) {
    start(); // one mbuf a packet
    const uint32_t most = rte_pktmbuf_data_room_size(pool.get()) - RTE_PKTMBUF_HEADROOM;
    for (uint64_t errors = 1; errors < 20; ++errors) {
        uint32_t packet = sequence;
        deliver(most);
        take(receive_one(), packet, most);
        deliver(most + 1);
        packet = sequence;
        deliver(100);
        take(receive_one(), packet, 100);
        EXPECT_EQ(ring->counters.errors, errors);
    }
    deliver(most + 1);
    rte_mbuf* none = nullptr;
    EXPECT_EQ(receive(&none, 1), 0u);
    EXPECT_EQ(cq->doorbell.consumer, cq->producer) << "the device may write there again";
    EXPECT_EQ(resets, 0);
}

TEST_P(Mlx5Striding, PacketsKeepTheirBytesWhileOthersAreWritten) {
    start();
    std::mt19937 random(3);
    std::vector<std::pair<rte_mbuf*, uint32_t>> held; // each with its packet number
    uint32_t taken = 0;
    for (int i = 0; i < 5000; ++i) {
        const uint32_t bytes = 60 + random() % 1900;
        const uint32_t packet = sequence;
        deliver(bytes);
        rte_mbuf* mbuf = receive_one();
        // Applications may write into the headroom.
        memset(rte_pktmbuf_mtod(mbuf, uint8_t*) - RTE_PKTMBUF_HEADROOM, 0xee, RTE_PKTMBUF_HEADROOM);
        held.emplace_back(mbuf, packet);
        if (held.size() < 100) continue;
        const size_t victim = random() % held.size();
        const auto [old, number] = held[victim];
        take(old, number, old->pkt_len);
        held.erase(held.begin() + static_cast<ptrdiff_t>(victim));
        ++taken;
    }
    for (const auto& [mbuf, number] : held)
        take(mbuf, number, mbuf->pkt_len);
    EXPECT_EQ(ring->counters.packets, 5000u);
    EXPECT_GT(taken, 4000u);
}

TEST_P(Mlx5Striding, WhoHoldsAllBuffersGetsCopies) {
    start({.pool_size = 600});
    std::vector<rte_mbuf*> held;
    const auto hold = [&] {
        deliver(1000);
        held.push_back(receive_one());
        return RTE_MBUF_HAS_EXTBUF(held.back());
    };
    // One packet of each WQE keeps its buffer in use. The ring and its spare keep theirs.
    while (hold())
        ASSERT_LE(held.size(), kBuffers * kStrides);
    EXPECT_GE(held.size(), (kBuffers - kWqes - 1) * kStrides);
    for (int i = 0; i < 200; ++i)
        EXPECT_FALSE(hold());
    EXPECT_EQ(ring->counters.nombuf, 0u);
    for (uint32_t i = 0; i < held.size(); ++i)
        take(held[i], i, 1000);
    held.clear();
    const uint32_t before = sequence;
    for (uint32_t i = 0; i < 2 * kStrides; ++i) { // a spare is available for the next WQE
        deliver(1000);
        rte_mbuf* const mbuf = receive_one();
        EXPECT_TRUE(RTE_MBUF_HAS_EXTBUF(mbuf) || i <= kStrides);
        take(mbuf, before + i, 1000);
    }
}

TEST_P(Mlx5Striding, WithoutMbufsPacketsWait) {
    for (const uint16_t count : {16, 20}) { // a multiple of the vector length, or not
        start({.pool_size = count});
        for (uint64_t shortage = 1; shortage < 4; ++shortage) {
            const uint32_t first = sequence;
            for (uint32_t i = 0; i < 32; ++i)
                deliver(200);
            rte_mbuf* mbufs[32];
            ASSERT_EQ(receive(mbufs, 32), count);
            EXPECT_EQ(ring->counters.nombuf, shortage);
            EXPECT_EQ(receive(mbufs + count, 12), 0u);
            EXPECT_EQ(ring->counters.nombuf, shortage) << "the packet that waits is counted once";
            for (uint32_t i = 0; i < count; ++i)
                take(mbufs[i], first + i, 200);
            ASSERT_EQ(receive(mbufs, 32), 32u - count);
            for (uint32_t i = 0; i < 32u - count; ++i)
                take(mbufs[i], first + count + i, 200);
        }
        stop();
        EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
        spec = {};
        consumed = 0;
        used_ = 0;
    }
}

/// The stride buffers are the queue's own memory, but their registration may change.
TEST_P(Mlx5Striding, LkeysFollowUnregistration) {
    start();
    mrs.split = 1; // everything has a different lkey now
    mrs.unregister();
    std::vector<rte_mbuf*> held;
    for (uint32_t i = 0; i < 2 * kStrides; ++i) { // two WQEs get new buffers
        deliver(500);
        held.push_back(receive_one());
    }
    for (uint32_t wqe = 0; wqe < kWqes; ++wqe)
        EXPECT_EQ(rq->ring[2 * wqe + 1].lkey, FakeMrs::kLkey + (wqe < 2 ? 1 : 0)) << wqe;
    for (uint32_t i = 0; i < held.size(); ++i)
        take(held[i], i, 500);
}

TEST_P(Mlx5Striding, FillersAreSteppedOver) {
    start({.segments = 4});
    rte_mbuf* mbufs[8];
    for (uint32_t i = 0; i < 200; ++i) { // three strides each, with a filler of two in every WQE
        deliver(2 * kStrideBytes + 100);
        ASSERT_EQ(receive(mbufs, 8), 1u);
        take(mbufs[0], i, 2 * kStrideBytes + 100);
    }
    EXPECT_EQ(ring->counters.packets, 200u);
}

TEST_P(Mlx5Striding, LongCopiesAreChains) {
    start({.segments = 8, .pool_size = 80, .data_room = 512 + RTE_PKTMBUF_HEADROOM});
    EXPECT_STREQ(burst.description, "mlx5 striding, scattered");
    format.rx_share(*ring); // copies of any length
    uint64_t sum = 0;
    for (uint32_t bytes = 1; bytes < 512 + 7 * (512 + RTE_PKTMBUF_HEADROOM); bytes += 89) {
        const uint32_t packet = sequence;
        deliver(bytes);
        rte_mbuf* const mbuf = receive_one();
        EXPECT_FALSE(RTE_MBUF_HAS_EXTBUF(mbuf));
        take(mbuf, packet, bytes);
        sum += bytes;
    }
    EXPECT_EQ(ring->counters.bytes, sum);
}

/// Copies may be longer than the packet, but not than the mbuf's buffer.
class Mlx5StridingRooms : public Mlx5Striding {
  protected:
    void receive_into(uint32_t room) {
        using Guard = std::array<uint8_t, 24>;
        start({.data_room = static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + room)});
        ASSERT_GE(pool->elt_size + pool->trailer_size,
                  sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + room + sizeof(Guard));
        Guard untouched;
        untouched.fill(0xa5);
        for (uint32_t bytes = 0; bytes <= room; ++bytes) {
            std::array<rte_mbuf*, 8> mbufs{};
            rte_mempool_obj_iter(
                pool.get(),
                [](rte_mempool*, void* guard, void* object, unsigned) {
                    const rte_mbuf& mbuf = *static_cast<rte_mbuf*>(object);
                    memcpy(static_cast<uint8_t*>(mbuf.buf_addr) + mbuf.buf_len, guard,
                           sizeof(Guard));
                },
                &untouched);
            for (size_t i = 0; i < mbufs.size(); ++i)
                deliver(bytes);
            ASSERT_EQ(receive(mbufs.data(), mbufs.size()), mbufs.size());
            for (uint32_t i = 0; i < mbufs.size(); ++i) {
                const uint8_t* const end =
                    static_cast<uint8_t*>(mbufs[i]->buf_addr) + mbufs[i]->buf_len;
                EXPECT_TRUE(std::equal(untouched.begin(), untouched.end(), end)) << bytes;
                take(mbufs[i], sequence - 8 + i, bytes);
            }
        }
    }
};

TEST_P(Mlx5StridingRooms, NoMultipleOf64) { receive_into(100); }
TEST_P(Mlx5StridingRooms, LessThan64) { receive_into(40); }

/// Mbufs that always have an external buffer cannot have another attached.
TEST_P(Mlx5Striding, PacketsAreCopiedIntoPinnedBuffers) {
    const PinnedPool pinned(100);
    start({.own_pool = pinned.get()});
    for (uint32_t i = 0; i < 200; ++i) {
        deliver(1000);
        rte_mbuf* const mbuf = receive_one();
        ASSERT_TRUE(pinned.owns_buffer_of(mbuf));
        take(mbuf, i, 1000);
    }
    stop();
    EXPECT_EQ(rte_mempool_in_use_count(pinned.get()), 0u);
}

TEST_P(Mlx5Striding, VerdictsAreWhatThePacketShows) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM});
    for (const size_t payload : {37u, 300u}) { // copied, attached
        const std::vector<VerdictCase> cases = verdict_cases(payload);
        for (const size_t burst_size : {1u, 23u}) {
            for (size_t at = 0; at < cases.size();) {
                const size_t count = std::min(burst_size, cases.size() - at);
                for (size_t i = 0; i < count; ++i)
                    deliver(cases[at + i].frame, cqe_of(cases[at + i]));
                std::vector<rte_mbuf*> mbufs(count);
                ASSERT_EQ(receive(mbufs.data(), static_cast<uint16_t>(count)), count);
                for (rte_mbuf* mbuf : mbufs) {
                    EXPECT_EQ(mbuf->ol_flags & ~RTE_MBUF_F_EXTERNAL, cases[at].flags)
                        << cases[at].name;
                    rte_pktmbuf_free(mbuf);
                    ++at;
                }
            }
        }
    }
}

TEST_P(Mlx5Striding, VerdictsOfBlocks) {
    start({.cq_entries = 128, .offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM, .compressed = true});
    for (const VerdictCase& c : verdict_cases()) {
        own_frame = &c.frame;
        deliver_block(cqe_of(c), std::vector(2, static_cast<uint32_t>(c.frame.size())));
        for (int i = 0; i < 2; ++i) {
            rte_mbuf* const mbuf = receive_one();
            EXPECT_EQ(mbuf->ol_flags, c.flags) << c.name;
            rte_pktmbuf_free(mbuf);
        }
    }
}

TEST_P(Mlx5Striding, Blocks) {
    start({.cq_entries = 128, .offloads = RTE_ETH_RX_OFFLOAD_RSS_HASH, .compressed = true});
    std::mt19937 random(4);
    mlx5::Cqe title{};
    title.rx_hash_type = kHashedAddresses;
    uint32_t packet = 0;
    while (packet < 3000) {
        std::vector<uint32_t> sizes(2 + random() % 12);
        for (uint32_t& bytes : sizes)
            bytes = 60 + random() % 1900;
        deliver_block(title, sizes);
        if (random() % 2) deliver(77, title), sizes.push_back(77);
        EXPECT_EQ(format.rx_queue_count(ring), sizes.size());
        for (size_t at = 0; at < sizes.size();) {
            rte_mbuf* mbufs[5];
            const uint16_t count = receive(mbufs, static_cast<uint16_t>(1 + random() % 5));
            ASSERT_GT(count, 0u);
            for (uint16_t i = 0; i < count; ++i, ++at, ++packet) {
                EXPECT_TRUE(mbufs[i]->ol_flags & RTE_MBUF_F_RX_RSS_HASH);
                if (sizes[at] != 77) {
                    EXPECT_EQ(mbufs[i]->hash.rss, packet + 1);
                }
                take(mbufs[i], packet, sizes[at]);
            }
        }
    }
    EXPECT_EQ(ring->counters.packets, packet);
}

TEST_P(Mlx5Striding, ErrorsAreSurvivedWithPacketsOut) {
    start();
    for (uint32_t round = 0; round < 20; ++round) {
        const uint32_t first = sequence;
        for (uint32_t i = 0; i < 1 + round % kStrides; ++i)
            deliver(500);
        rte_mbuf* mbufs[32];
        const uint16_t count = receive(mbufs, 32);
        ASSERT_EQ(count, sequence - first);
        cq->write_error(mlx5::CqeOpcode::resp_error, mlx5::CqeSyndrome::local_length, consumed++);
        while (posted() > 0)
            cq->write_error(mlx5::CqeOpcode::resp_error, mlx5::CqeSyndrome::flushed, consumed++);
        rte_delay_us_block(1100); // recoveries are at least a millisecond apart
        rte_mbuf* none;
        ASSERT_EQ(receive(&none, 1), 0u);
        ASSERT_EQ(resets, static_cast<int>(round + 1));
        ASSERT_EQ(posted(), kWqes);
        deliver(700);
        take(receive_one(), first + count, 700);
        for (uint16_t i = 0; i < count; ++i)
            take(mbufs[i], first + i, 500);
    }
    EXPECT_EQ(ring->counters.errors, 20u);
}

TEST_P(Mlx5Striding, WhatNoDeviceWritesResetsTheQueue) {
    start();
    for (const uint32_t byte_count :
         {0u, 100u, (kStrides + 1) << 16 | 100, 1u << 16 | (kStrideBytes + 1), kFiller, ~0u}) {
        const int before = resets;
        complete(byte_count, {});
        rte_delay_us_block(1100);
        rte_mbuf* none;
        EXPECT_EQ(receive(&none, 1), 0u);
        EXPECT_EQ(resets, before + 1) << std::hex << byte_count;
    }
}

TEST_P(Mlx5Striding, PacketsOutliveTheirQueue) {
    const unsigned mempools = count_mempools();
    start();
    std::vector<rte_mbuf*> held;
    for (int i = 0; i < 50; ++i) {
        deliver(1200);
        held.push_back(receive_one());
    }
    deliver(100);
    deliver(1000);
    EXPECT_EQ(format.rx_stop(*ring), 2u) << "packets that were not polled";
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), held.size());
    const auto again = format.rx_start(*ring);
    ASSERT_TRUE(again) << again.error().what;
    stop();
    EXPECT_EQ(count_mempools(), mempools + 2) << "the mbufs' and that of the packets still out";
    for (uint32_t i = 0; i < held.size(); ++i)
        take(held[i], i, 1200);
    EXPECT_EQ(count_mempools(), mempools + 1);
    EXPECT_EQ(rte_mempool_in_use_count(pool.get()), 0u);
}

TEST_P(Mlx5Striding, CountsWhatWaits) {
    start();
    EXPECT_EQ(format.rx_queue_count(ring), 0u);
    EXPECT_EQ(format.rx_descriptor_status(ring, 0), RTE_ETH_RX_DESC_AVAIL);
    for (int i = 0; i < 3; ++i)
        deliver(64);
    EXPECT_EQ(format.rx_queue_count(ring), 3u);
    EXPECT_EQ(format.rx_descriptor_status(ring, 2), RTE_ETH_RX_DESC_DONE);
    EXPECT_EQ(format.rx_descriptor_status(ring, 3), RTE_ETH_RX_DESC_AVAIL);
    EXPECT_EQ(format.rx_descriptor_status(ring, kWqes * kStrides), -EINVAL);
    for (uint32_t i = 0; i < 3; ++i)
        take(receive_one(), i, 64);
    EXPECT_EQ(format.rx_queue_count(ring), 0u);
    EXPECT_EQ(format.rx_descriptor_status(ring, kWqes * kStrides - 1), RTE_ETH_RX_DESC_UNAVAIL);
    EXPECT_EQ(format.rx_descriptor_status(ring, kWqes * kStrides - 3), RTE_ETH_RX_DESC_UNAVAIL);
    EXPECT_EQ(format.rx_descriptor_status(ring, kWqes * kStrides - 4), RTE_ETH_RX_DESC_AVAIL);
}

TEST_P(Mlx5Striding, ARestartForgetsAShortage) {
    constexpr uint16_t kMbufs = 16;
    start({.pool_size = kMbufs});
    for (uint32_t i = 0; i < kMbufs + 1; ++i)
        deliver(200);
    rte_mbuf* mbufs[kMbufs + 1];
    ASSERT_EQ(receive(mbufs, kMbufs + 1), kMbufs);
    EXPECT_EQ(ring->counters.nombuf, 1u);
    restart(1);
    const uint32_t next = sequence;
    deliver(200);
    rte_mbuf* none;
    EXPECT_EQ(receive(&none, 1), 0u);
    EXPECT_EQ(ring->counters.nombuf, 2u) << "another packet waits";
    for (uint32_t i = 0; i < kMbufs; ++i)
        take(mbufs[i], i, 200);
    take(receive_one(), next, 200);
}

TEST_P(Mlx5Striding, RealTimeFollowsTheKernelsClock) {
    start({.offloads = RTE_ETH_RX_OFFLOAD_TIMESTAMP, .real_time = true});
    expect_real_time([&](const mlx5::Cqe& cqe) {
        deliver(64, cqe);
        return receive_one();
    });
}

TEST_P(Mlx5Striding, ARestartForgetsAnError) {
    start();
    for (int i = 0; i < 2; ++i) { // recovery from the second one waits for a millisecond
        cq->write_error(mlx5::CqeOpcode::resp_error, mlx5::CqeSyndrome::local_length, consumed++);
        rte_mbuf* none;
        EXPECT_EQ(receive(&none, 1), 0u);
        ASSERT_EQ(resets, 1);
    }
    restart(0);
    const uint32_t next = sequence;
    deliver(700);
    take(receive_one(), next, 700);
    EXPECT_EQ(resets, 1);
    deliver(100);
    restart(1); // this also checks for errors
}

TEST_P(Mlx5Striding, AStopCountsPacketsAndNoFillers) {
    start();
    deliver(60);
    deliver(kStrides * kStrideBytes - RTE_PKTMBUF_HEADROOM);
    restart(2);
}

INSTANTIATE_TEST_SUITE_P(Readers, Mlx5StridingRooms, testing::ValuesIn(kWidths), kByWidth);
INSTANTIATE_TEST_SUITE_P(Readers, Mlx5Striding, testing::ValuesIn(kWidths), kByWidth);

} // namespace
} // namespace rings_test
