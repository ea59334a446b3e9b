// SPDX-License-Identifier: BSD-3-Clause
// Bursts on mapped mlx5 rings that stop after any of their instructions because their process is
// killed. Another process continues with the ring: nothing is sent or received wrongly, no mbuf is
// freed twice, and no more are lost than the burst was working on.
#include "drivers/net/rawqp/rings/mlx5/striding_ring.hpp"
#include "tests/unit/rings/killed.hpp"
#include "tests/unit/rings/mlx5_striding.hpp"
#include "tests/unit/rings/mlx5_tx.hpp"

#if defined(__x86_64__)

#include <array>

namespace rings_test {
namespace {

constexpr uint16_t kNext = 2; ///< packets sent or received by the other process

/// No messages: otherwise most instructions of a recovery would be logging.
class Silence {
  public:
    Silence() { rte_log_set_global_level(RTE_LOG_EMERG); }
    ~Silence() { rte_log_set_global_level(level_); }
    Silence(const Silence&) = delete;
    Silence& operator=(const Silence&) = delete;

  private:
    uint32_t level_ = rte_log_get_global_level();
};

struct TxCase {
    const char* name;
    uint16_t burst; ///< packets
    TxSetup setup;
};

class Mlx5TxKilled : public Mlx5Tx, public testing::WithParamInterface<TxCase> {
  protected:
    std::vector<rte_mbuf*> packets(uint32_t seed, uint16_t count) {
        std::vector<rte_mbuf*> all;
        for (uint16_t i = 0; i < count; ++i)
            all.push_back(make_packet(mbufs.pool.get(), seed + i, {64}));
        return all;
    }
    void start_anew() {
        if (ring != nullptr) {
            rawqp::kMlx5Format.tx_stop(*ring);
            rawqp::kMlx5Format.tx_destroy(ring);
        }
        mbufs.restore();
        wire.clear();
        start(GetParam().setup);
    }
    /// These packets go on the wire in `seed` order, after those of the killed process.
    void expect_sent(uint32_t seed, uint16_t count) {
        ASSERT_EQ(send(packets(seed, count)), count);
        while (pending_wqebbs() > 0)
            execute_wqe();
        ASSERT_GE(wire.size(), count);
        wire.erase(wire.begin(), wire.end() - count);
        for (uint16_t i = 0; i < count; ++i)
            ASSERT_EQ(execute(), expected(seed + i, 64));
    }
    /// The process is killed at any point of the burst that follows `before` others. `shared`:
    /// somebody else also holds that burst's mbufs, and still does at the end.
    void another_goes_on(uint32_t before, bool shared = false) {
        constexpr size_t kAskEvery = 16; // of 64 descriptors
        const uint16_t burst_size = GetParam().burst;
        kill_everywhere([&] {
            start_anew();
            for (uint32_t i = 0; i < before; ++i)
                expect_sent(100 * i, burst_size);
            std::vector<rte_mbuf*> burst_packets = packets(900, burst_size);
            for (rte_mbuf* const mbuf : burst_packets)
                rte_mbuf_refcnt_update(mbuf, shared ? 1 : 0);
            const bool ended = step_by_step.run([&] { send(burst_packets.data(), burst_size); });
            SCOPED_TRACE("at " + StepByStep::where());
            execute_all();
            expect_sent(1000, kNext);
            expect_sent(1100, kNext);
            settle();
            const size_t held = shared ? burst_size : 0;
            EXPECT_GE(mbufs.lacking(), held);
            EXPECT_LE(mbufs.lacking(), held + (ended ? 0 : kAskEvery + 2 * burst_size))
                << "to be sent, or completed and to be freed";
            EXPECT_EQ(ring->counters.errors, 0u);
        });
    }

    /// The queue's error is found by the process that is killed, and then by another one.
    void another_recovers() {
        const uint16_t burst_size = GetParam().burst;
        const Silence silence;
        kill_everywhere([&] {
            start_anew();
            expect_sent(0, burst_size);
            send(packets(100, burst_size));
            send(packets(200, burst_size));
            execute_wqe();
            break_queue(mlx5::CqeSyndrome::local_protection);
            std::vector<rte_mbuf*> burst_packets = packets(900, burst_size);
            const bool ended = step_by_step.run([&] { send(burst_packets.data(), burst_size); });
            SCOPED_TRACE("at " + StepByStep::where());
            wait_for_recovery();
            expect_sent(1000, kNext);
            expect_sent(1100, kNext);
            settle();
            EXPECT_LE(mbufs.lacking(), ended ? 0u : 4u * burst_size);
            EXPECT_LE(ring->counters.errors, 4u * burst_size) << "those that failed, counted twice";
        });
    }
    void wait_for_recovery() {
        while (rawqp::kMlx5Format.tx_descriptor_status(ring, 0) == RTE_ETH_TX_DESC_UNAVAIL)
            rte_delay_us_block(100); // a reset is attempted at most once per millisecond
    }
    /// The device's part of a reset is not done by the killed process.
    void forget() override {
        (void)StepByStep::elsewhere([this] {
            Mlx5Tx::forget();
            return true;
        });
    }

    StepByStep step_by_step{mrs};
    SturdyPool mbufs{128};
};

TEST_P(Mlx5TxKilled, WhereItRecovers) { another_recovers(); }
TEST_P(Mlx5TxKilled, AnotherProcessGoesOn) { another_goes_on(2); }
TEST_P(Mlx5TxKilled, WhereItAsksForACompletion) { another_goes_on(15 / GetParam().burst); }
TEST_P(Mlx5TxKilled, WhereItFrees) { another_goes_on(15 / GetParam().burst + 1); }

/// Where applications do not promise that mbufs are unshared.
class Mlx5TxKilledSharing : public Mlx5TxKilled {};
TEST_P(Mlx5TxKilledSharing, MbufsOfOthersStayTheirs) { another_goes_on(2, true); }

INSTANTIATE_TEST_SUITE_P(
    Variants, Mlx5TxKilledSharing,
    testing::Values(TxCase{"simple", 3, {.offloads = 0}},
                    TxCase{"multi_packet", 3, {.offloads = 0, .multi_packet = true}}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Variants, Mlx5TxKilled,
    testing::Values(
        TxCase{"simple", 3, {.offloads = 0}},
        TxCase{"fast_free", 3, {.offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE}},
        TxCase{"segments", 2, {}},
        TxCase{"inlined", 2, {.offloads = 0, .sq_wqebbs = 128, .inline_bytes = 64}},
        TxCase{"multi_packet", 3, {.offloads = 0, .multi_packet = true}},
        TxCase{"multi_packet_avx2", 5, {.offloads = 0, .multi_packet = true, .simd_bits = kAvx2}},
        TxCase{"blue_flame", 2, {.offloads = 0, .multi_packet = true, .blue_flame = true}}),
    [](const auto& info) { return std::string(info.param.name); });

struct RxCase {
    const char* name;
    bool compressed = false;
    uint8_t segments = 1;
    unsigned cache = 0;    ///< mbufs of the pool that an lcore may cache
    bool attached = false; ///< packets of the first WQE are held, from before the ring is shared
};

/// Receive rings of either kind, shared between processes.
template <class Rings>
class RxKilled : public Rings, public testing::WithParamInterface<std::tuple<RxCase, unsigned>> {
  protected:
    void SetUp() override {
        this->simd_bits = std::get<1>(GetParam());
        SKIP_WITHOUT_VECTORS(this->simd_bits);
    }
    [[nodiscard]] RxSetup setup() const {
        return {.own_pool = mbufs.pool.get(),
                .descriptors = static_cast<uint16_t>(64 * variant.segments),
                .segments = variant.segments,
                .cq_entries = variant.compressed ? 128u : 64u,
                .compressed = variant.compressed};
    }
    /// `in_block` is how such a packet is described to deliver_block().
    template <class InBlock>
    void deliver_some(uint16_t count, uint32_t bytes, const InBlock& in_block) {
        if (variant.compressed) {
            this->deliver_block({}, std::vector(count, in_block));
        } else {
            for (uint16_t i = 0; i < count; ++i)
                this->deliver(bytes);
        }
    }

    /// The queue has failed. This process is killed in the burst that finds out, and another one
    /// makes the queue receive again. Returns whether the burst had ended before.
    bool another_recovers() {
        const auto reset = this->mrs.on_reset;
        this->resets = 0;
        // The device's part is not done by the killed process.
        this->mrs.on_reset = [reset] { return StepByStep::elsewhere(reset); };
        this->break_queue(mlx5::CqeSyndrome::local_protection);
        rte_mbuf* got[8];
        const bool ended = step_by_step.run([&] { this->receive(got, 8); });
        EXPECT_TRUE(!ended || this->resets == 1);
        // A reset is attempted at most once per millisecond; buffers that this process has posted
        // may be posted again.
        constexpr int kTries = 1000, kSettled = 15;
        int settled = 0;
        for (int i = 0; i < kTries && settled < kSettled; ++i) {
            const int before = this->resets;
            rte_delay_us_sleep(100);
            EXPECT_EQ(this->receive(got, 8), 0u);
            settled = this->posted() > 0 && this->resets == before ? settled + 1 : 0;
        }
        EXPECT_GT(this->posted(), 0u) << "the queue is silently empty";
        EXPECT_EQ(this->cq->doorbell.consumer, this->cq->producer);
        return ended;
    }

    const RxCase variant = std::get<0>(GetParam());
    StepByStep step_by_step{this->mrs};
    SturdyPool mbufs{256, variant.cache};
};

class Mlx5RxKilled : public RxKilled<Mlx5Rx> {
  protected:
    void TearDown() override { // already stopped, and mbufs may be lost
        if (ring != nullptr) rawqp::kMlx5Format.rx_destroy(ring);
    }
    void start_anew() {
        if (ring != nullptr) rawqp::kMlx5Format.rx_destroy(ring);
        mbufs.restore();
        consumed = 0;
        sequence = 0;
        start(setup());
    }
    void deliver_some(uint16_t count) {
        RxKilled::deliver_some(count, kBytes, mlx5::MiniCqe{0, kBytes});
    }

    static constexpr uint32_t kBytes = 64;
};

TEST_P(Mlx5RxKilled, AnotherProcessGoesOn) {
    constexpr uint16_t kFirst = 4, kSecond = 14; // the second burst replaces buffers
    kill_everywhere([&] {
        start_anew();
        deliver_some(kFirst);
        take_the_rest(kFirst, kBytes);
        deliver_some(kSecond);
        rte_mbuf* got[32];
        uint16_t count = 0;
        const bool ended = step_by_step.run([&] { count = receive(got, 32); });
        SCOPED_TRACE("at " + StepByStep::where());
        if (ended) rte_pktmbuf_free_bulk(got, count);
        for (int i = 0; i < 4 && !HasFailure(); ++i) {
            deliver_some(kNext);
            take_the_rest(kNext, kBytes);
        }
        EXPECT_EQ(ring->counters.errors, 0u);
        rawqp::kMlx5Format.rx_stop(*ring);
        const size_t replaced = size_t{kFirst + kSecond} * spec.segments;
        const size_t in_cache = 2 * size_t{variant.cache};
        EXPECT_LE(mbufs.lacking(), ended ? 0u : kSecond + replaced + in_cache);
    });
}

TEST_P(Mlx5RxKilled, AnotherProcessStopsIt) {
    constexpr uint16_t kFirst = 4;
    kill_everywhere([&] {
        start_anew();
        deliver_some(kFirst);
        take_the_rest(kFirst, kBytes);
        const bool ended = step_by_step.run([&] { rawqp::kMlx5Format.rx_stop(*ring); });
        SCOPED_TRACE("at " + StepByStep::where());
        if (!ended) mbufs.lose_cache();
        rawqp::kMlx5Format.rx_stop(*ring);
        const size_t in_cache = 2 * size_t{variant.cache};
        EXPECT_LE(mbufs.lacking(), ended ? 0u : 1 + in_cache);
    });
}

/// All readers share the same recovery.
class Mlx5RxKilledRecovering : public Mlx5RxKilled {};
TEST_P(Mlx5RxKilledRecovering, AnotherProcessDoes) {
    // The failed WQE is in the middle of the ring; some slots are free, too few for a refill.
    constexpr uint16_t kFirst = 14;
    const Silence silence;
    kill_everywhere([&] {
        start_anew();
        deliver_some(kFirst);
        take_the_rest(kFirst, kBytes);
        const bool ended = another_recovers();
        SCOPED_TRACE("at " + StepByStep::where());
        for (int i = 0; i < 60 && !HasFailure(); ++i) { // more than once around the ring
            deliver_some(kNext);
            take_the_rest(kNext, kBytes);
        }
        EXPECT_LE(ring->counters.errors, ended ? 1u : 2u);
        rawqp::kMlx5Format.rx_stop(*ring);
        EXPECT_LE(mbufs.lacking(), ended ? 0u : 1u) << "the one that was being moved";
    });
}

INSTANTIATE_TEST_SUITE_P(Variants, Mlx5RxKilled,
                         testing::Combine(testing::Values(RxCase{"plain"},
                                                          RxCase{.name = "cached", .cache = 64},
                                                          RxCase{"compressed", true}),
                                          testing::ValuesIn(kWidths)),
                         kByNameAndWidth);
INSTANTIATE_TEST_SUITE_P(Scattered, Mlx5RxKilled,
                         testing::Combine(testing::Values(RxCase{"plain", false, 2},
                                                          RxCase{"compressed", true, 2}),
                                          testing::Values(kScalar)),
                         kByNameAndWidth);

INSTANTIATE_TEST_SUITE_P(
    Variants, Mlx5RxKilledRecovering,
    testing::Combine(testing::Values(RxCase{"plain"}, RxCase{.name = "cached", .cache = 64},
                                     RxCase{"compressed", true}, RxCase{"scattered", false, 2}),
                     testing::Values(kScalar)),
    kByNameAndWidth);

class Mlx5StridingKilled : public RxKilled<Mlx5StridingRing> {
  protected:
    void TearDown() override { destroy(); }
    void destroy() { // already stopped, and mbufs may be lost
        if (ring != nullptr) format.rx_destroy(ring);
        ring = nullptr;
        // A buffer that is never returned keeps its pool alive, which would add up.
        std::vector<rte_mempool*> kept;
        rte_mempool_walk(
            [](rte_mempool* mempool, void* all) {
                if (std::string_view(mempool->name).starts_with("rawqp_strides_"))
                    static_cast<std::vector<rte_mempool*>*>(all)->push_back(mempool);
            },
            &kept);
        for (rte_mempool* const mempool : kept)
            rte_mempool_free(mempool);
    }
    void start_anew() {
        destroy();
        mbufs.restore();
        consumed = 0;
        sequence = 0;
        used_ = 0;
        start(setup());
    }
    void deliver_some(uint16_t count) { RxKilled::deliver_some(count, kBytes, kBytes); }
    /// These are held, attached or copied depending on the variant, when the ring becomes shared.
    template <uint16_t Count> void take_first(std::array<rte_mbuf*, Count>& packets) {
        if (!variant.attached) format.rx_share(*ring);
        deliver_some(Count);
        EXPECT_EQ(receive(packets.data(), Count), Count);
        EXPECT_EQ(RTE_MBUF_HAS_EXTBUF(packets[0]) != 0, variant.attached);
        format.rx_share(*ring);
    }
    /// Every WQE is reused, and the first packets have not changed.
    template <uint16_t Count> void go_round(const std::array<rte_mbuf*, Count>& first) {
        for (uint32_t i = 0; i < 2 * kWqes && !HasFailure(); ++i) {
            deliver_some(kStrides / 2);
            take_the_rest(kStrides / 2, kBytes);
        }
        for (uint16_t i = 0; i < Count && !HasFailure(); ++i)
            take(first[i], i, kBytes);
    }

    static constexpr uint32_t kBytes = 2 * kCopyBytes; ///< copied while the ring is shared
};

TEST_P(Mlx5StridingKilled, AnotherProcessGoesOn) {
    constexpr uint16_t kFirst = kStrides - 3, kSecond = 10; // the second burst ends the WQE
    kill_everywhere([&] {
        start_anew();
        std::array<rte_mbuf*, kFirst> first{};
        take_first<kFirst>(first);
        deliver_some(kSecond);
        rte_mbuf* got[32];
        uint16_t count = 0;
        const bool ended = step_by_step.run([&] { count = receive(got, 32); });
        SCOPED_TRACE("at " + StepByStep::where());
        if (ended) rte_pktmbuf_free_bulk(got, count);
        go_round<kFirst>(first);
        EXPECT_EQ(ring->counters.errors, 0u);
        format.rx_stop(*ring);
        constexpr size_t kInHand = rawqp::mlx5rings::StridingRing::kStash;
        EXPECT_LE(mbufs.lacking(), ended ? 0u : kSecond + kInHand);
    });
}

class Mlx5StridingKilledRecovering : public Mlx5StridingKilled {};
TEST_P(Mlx5StridingKilledRecovering, AnotherProcessDoes) {
    constexpr uint16_t kFirst = kStrides + 3; // packets of the current WQE are held
    const Silence silence;
    kill_everywhere([&] {
        start_anew();
        std::array<rte_mbuf*, kFirst> first{};
        take_first<kFirst>(first);
        const bool ended = another_recovers();
        SCOPED_TRACE("at " + StepByStep::where());
        go_round<kFirst>(first);
        EXPECT_LE(ring->counters.errors, ended ? 1u : 2u);
        format.rx_stop(*ring);
        constexpr size_t kInHand = rawqp::mlx5rings::StridingRing::kStash;
        EXPECT_LE(mbufs.lacking(), ended ? 0u : kInHand);
    });
}

INSTANTIATE_TEST_SUITE_P(
    Variants, Mlx5StridingKilledRecovering,
    testing::Combine(testing::Values(RxCase{"plain"}, RxCase{.name = "attached", .attached = true},
                                     RxCase{"compressed", true}),
                     testing::Values(kScalar)),
    kByNameAndWidth);

INSTANTIATE_TEST_SUITE_P(
    Variants, Mlx5StridingKilled,
    testing::Combine(testing::Values(RxCase{"plain"}, RxCase{.name = "attached", .attached = true},
                                     RxCase{"compressed", true}),
                     testing::ValuesIn(kWidths)),
    kByNameAndWidth);

} // namespace
} // namespace rings_test

#endif
