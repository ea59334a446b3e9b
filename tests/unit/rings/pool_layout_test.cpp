// SPDX-License-Identifier: BSD-3-Clause
// What rings cache about a mempool as a whole.
#include "drivers/net/rawqp/rings/pool_layout.hpp"
#include "tests/unit/eal.hpp"
#include "tests/unit/rings/fake_mrs.hpp"

namespace {

using rawqp::MrCache;
using rings_test::FakeMrs;

constexpr uint16_t kHeadroom = RTE_PKTMBUF_HEADROOM;
constexpr uint16_t kPrivate = 64;

class PoolLayout : public test_eal::EalTest {
  protected:
    PoolLayout() {
        pool = rte_pktmbuf_pool_create("layout", 63, 0, kPrivate, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
        mbuf = rte_pktmbuf_alloc(pool);
    }
    ~PoolLayout() override {
        rte_pktmbuf_free(mbuf);
        rte_mempool_free(pool);
    }
    uint16_t look() { return rawqp::common_data_offset(pool, kHeadroom, queue); }
    /// Moves the buffer of one mbuf for a while.
    void shift(int bytes) { mbuf->buf_addr = static_cast<char*>(mbuf->buf_addr) + bytes; }

    FakeMrs mrs;
    MrCache queue{&mrs.table};
    rte_mempool* pool;
    rte_mbuf* mbuf;
};

constexpr uint16_t kOffset = sizeof(rte_mbuf) + kPrivate + kHeadroom;

TEST_F(PoolLayout, IsLookedAtOncePerPoolNotPerQueue) {
    EXPECT_EQ(look(), kOffset);
    shift(64); // a walk over the pool would notice
    MrCache other_queue{&mrs.table};
    EXPECT_EQ(rawqp::common_data_offset(pool, kHeadroom, other_queue), kOffset);
    mrs.unregister(); // a pool was destroyed: its address may belong to another one now
    EXPECT_EQ(look(), 0);
    shift(-64);
    EXPECT_EQ(look(), kOffset) << "a refusal must not be remembered";
}

TEST_F(PoolLayout, OfAPoolThatGrewIsLookedAtAgain) {
    EXPECT_EQ(look(), kOffset);
    shift(64);
    --pool->populated_size;
    EXPECT_EQ(look(), 0);
    ++pool->populated_size;
    shift(-64);
}

TEST_F(PoolLayout, OffsetsThatDoNotFitAreNone) {
    EXPECT_EQ(rawqp::common_data_offset(pool, UINT16_MAX - sizeof(rte_mbuf) - kPrivate, queue),
              UINT16_MAX);
    EXPECT_EQ(rawqp::common_data_offset(pool, UINT16_MAX - sizeof(rte_mbuf) - kPrivate + 1, queue),
              0);
}

} // namespace
