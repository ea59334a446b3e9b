// SPDX-License-Identifier: BSD-3-Clause
// Whose mbufs multi-packet WQEs send: of several pools, shared, attached, with external buffers.
#include "tests/unit/rings/mlx5_tx_mpw.hpp"

#include <algorithm>
#include <array>

namespace rings_test {
namespace {

class Mlx5TxPools : public Mlx5TxMpw {
  protected:
    /// From here on, memory is registered apart from that of mbufs of the other pool: each pool's
    /// packets need an lkey of their own.
    void split_between(rte_mempool* other) {
        const auto start = [](rte_mempool* of) {
            return reinterpret_cast<uintptr_t>(STAILQ_FIRST(&of->mem_list)->addr);
        };
        mrs.split = std::max(start(pool.get()), start(other));
        mrs.unregister();
    }
    /// `own` packets of the ring's usual pool, then `others` of the other one.
    std::vector<rte_mbuf*> mixed(uint32_t own, rte_mempool* other, uint32_t others) {
        std::vector<rte_mbuf*> mbufs = packets(own);
        for (uint32_t i = 0; i < others; ++i)
            mbufs.push_back(make_packet(other, own + i, {64}));
        return mbufs;
    }
    /// All of them arrive, and each pool gets back its own.
    void expect_all(uint32_t count, const rte_mempool* other) {
        for (uint32_t i = 0; i < count; ++i)
            ASSERT_EQ(execute(), expected(i, 64)) << i;
        settle();
        EXPECT_EQ(in_use(), 0u);
        EXPECT_EQ(rte_mempool_in_use_count(other), 0u);
    }
};

TEST_P(Mlx5TxPools, SharedMbufsAndSeveralPools) {
    start({.offloads = 0});
    const test_eal::Pool other = test_eal::make_pool(64);
    for (uint32_t period = 2; period < 9; ++period) {
        std::vector<rte_mbuf*> mbufs;
        for (uint32_t i = 0; i < 40; ++i) {
            mbufs.push_back(make_packet(i % period == 1 ? other.get() : pool.get(), i, {64}));
            if (i % 5 == period % 5) rte_mbuf_refcnt_update(mbufs[i], 1);
        }
        ASSERT_EQ(send(mbufs), 40u);
        for (uint32_t i = 0; i < 40; ++i)
            ASSERT_EQ(execute(), expected(i, 64));
        settle();
        EXPECT_EQ(in_use() + rte_mempool_in_use_count(other.get()), 8u);
        for (uint32_t i = period % 5; i < 40; i += 5)
            rte_pktmbuf_free(mbufs[i]);
        EXPECT_EQ(in_use(), 0u);
        EXPECT_EQ(rte_mempool_in_use_count(other.get()), 0u);
    }
}

/// Everything else is alike: each pool gets back its own mbufs.
TEST_P(Mlx5TxPools, OnePacketOfAnotherPool) {
    start({.offloads = 0});
    const test_eal::Pool other = test_eal::make_pool(63);
    for (uint32_t odd = 0; odd < 11; ++odd) { // the last three packets do not fill a vector
        auto mbufs = packets(11);
        rte_pktmbuf_free(mbufs[odd]);
        mbufs[odd] = make_packet(other.get(), odd, {64});
        ASSERT_EQ(send(mbufs), 11u);
        for (uint32_t i = 0; i < 11; ++i)
            ASSERT_EQ(execute(), expected(i, 64));
        settle();
        ASSERT_EQ(in_use(), 0u) << odd;
        ASSERT_EQ(rte_mempool_in_use_count(other.get()), 0u) << odd;
    }
}

TEST_P(Mlx5TxPools, AttachedMbufsAreDetachedWhenFreed) {
    start({.offloads = 0});
    for (uint32_t odd = 0; odd < 6; ++odd) {
        auto mbufs = packets(6);
        rte_mbuf* target = mbufs[odd];
        rte_mbuf* clone = rte_pktmbuf_clone(target, pool.get());
        rte_pktmbuf_free(target); // the clone still refers to it
        mbufs[odd] = clone;
        ASSERT_EQ(send(mbufs), 6u);
        for (uint32_t i = 0; i < 6; ++i)
            ASSERT_EQ(execute(), expected(i, 64));
        settle();
        EXPECT_EQ(in_use(), 0u);
    }
}

TEST_P(Mlx5TxPools, ExternalBuffersGoBackToWhoeverAttachedThem) {
    static int freed;
    freed = 0;
    for (const uint64_t offloads : {uint64_t{0}, uint64_t{RTE_ETH_TX_OFFLOAD_MULTI_SEGS}}) {
        start({.offloads = offloads});
        for (const uint32_t count : {1, 6}) { // alone, and among others
            for (uint32_t odd = 0; odd < count; ++odd) {
                std::array<uint8_t, 512> memory;
                uint16_t bytes = memory.size();
                auto* const info = rte_pktmbuf_ext_shinfo_init_helper(
                    memory.data(), &bytes, [](void*, void*) { ++freed; }, nullptr);
                auto mbufs = packets(count);
                rte_pktmbuf_reset(mbufs[odd]);
                rte_pktmbuf_attach_extbuf(mbufs[odd], memory.data(), RTE_BAD_IOVA, bytes, info);
                std::ranges::copy(expected(odd, 64), memory.begin());
                rte_pktmbuf_append(mbufs[odd], 64);
                const int before = freed;
                ASSERT_EQ(send(mbufs), count);
                for (uint32_t i = 0; i < count; ++i)
                    ASSERT_EQ(execute(), expected(i, 64));
                settle();
                EXPECT_EQ(freed, before + 1);
                EXPECT_EQ(in_use(), 0u);
            }
        }
        TearDown();
        ring = nullptr;
    }
}

/// The burst's first packet says nothing about a later WQE, all of whose packets are alike.
TEST_P(Mlx5TxPools, AWqeOfAnotherPoolAfterATaggedPacket) {
    start({.offloads = RTE_ETH_TX_OFFLOAD_VLAN_INSERT});
    const test_eal::Pool other = test_eal::make_pool(63);
    split_between(other.get());
    auto mbufs = mixed(1, other.get(), 9);
    mbufs[0]->ol_flags = RTE_MBUF_F_TX_VLAN;
    ASSERT_EQ(send(mbufs), 10u);
    EXPECT_THAT(posted(), testing::ElementsAre(Shape{mlx5::WqeOpcode::send, 3}, mpw(9)));
    expect_all(10, other.get());
}

TEST_P(Mlx5TxPools, AWqeOfAnotherPoolAtTheRingsEndOrWhenOneIsFull) {
    start({.offloads = 0});
    const test_eal::Pool other = test_eal::make_pool(63);
    split_between(other.get());
    ASSERT_EQ(send(mixed(61, other.get(), 3)), 64u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(61), mpw(3))) << "a WQE holds at most 61";
    expect_all(64, other.get());
    ASSERT_EQ(send(packets(60)), 60u);
    settle();
    ASSERT_EQ(send(mixed(4, other.get(), 8)), 12u);
    EXPECT_THAT(posted(), testing::ElementsAre(mpw(4), mpw(8))) << "four slots to the end";
    expect_all(12, other.get());
}

INSTANTIATE_TEST_SUITE_P(Senders, Mlx5TxPools, testing::ValuesIn(kTxWidths), kByWidth);

} // namespace
} // namespace rings_test
