// SPDX-License-Identifier: BSD-3-Clause
// Virtio queues that have been idle for long are polled in turn: no chain is missed, whenever it
// comes, and chains of other queues need not wait for that.
#include "app/softhca/core/turns.hpp"
#include "tests/unit/softhca/fault_handler.hpp"
#include "tests/unit/softhca/virtq.hpp"

#include <array>
#include <atomic>
#include <random>
#include <thread>

namespace testbed {
namespace {

class VirtioIdle : public VirtioTest {
  protected:
    static constexpr size_t kMany = 256, kRings = 0x90000, kRingBytes = 256;
    static constexpr size_t kUsed = kRingBytes / 2; ///< after the available ring
    static constexpr size_t kTurn = kMany / looks_of_round(false, 0) + 1; ///< rounds

    /// Starts queues that send, whose chains are all the same one.
    void SetUp() override {
        post(frame); // that chain begins at descriptor 0
        VirtqAttr attr = ring.attr(true);
        attr.next_available = attr.next_used = 0;
        for (size_t i = 0; i < kMany; i++) {
            attr.available = reinterpret_cast<uint64_t>(ring_of(i));
            attr.used = attr.available + kUsed;
            numbers[i] = start(attr);
        }
    }
    [[nodiscard]] std::byte* ring_of(size_t queue) {
        return memory_at(kRings + queue * kRingBytes);
    }
    [[nodiscard]] uint16_t* index_of(size_t queue, size_t part) {
        return reinterpret_cast<uint16_t*>(ring_of(queue) + part +
                                           offsetof(virtio::RingHead, index));
    }
    /// In a ring of zeros, each head is descriptor 0.
    void make_available(size_t queue) {
        __atomic_store_n(index_of(queue, 0), ++posted[queue], __ATOMIC_RELEASE);
    }
    [[nodiscard]] bool is_used(size_t queue) {
        return __atomic_load_n(index_of(queue, kUsed), __ATOMIC_ACQUIRE) == posted[queue];
    }
    /// Polls like a thread that does not sleep between rounds.
    void rounds(size_t count) {
        while (count-- != 0)
            device->poll(false);
    }
    void idle() { rounds(kPatience + 1); }

    const Bytes frame = frames::build({});
    std::array<Number, kMany> numbers{};
    std::array<uint16_t, kMany> posted{}; ///< chains
};

TEST_F(VirtioIdle, EachIsServedInItsTurn) {
    idle();
    for (size_t queue = 0; queue < kMany; queue++) {
        make_available(queue);
        rounds(kTurn);
        ASSERT_TRUE(is_used(queue)) << queue;
    }
    EXPECT_EQ(wire->sent, std::vector<Bytes>(kMany, frame));
}

TEST_F(VirtioIdle, AllAreServedAtOnceByAThreadThatHasSlept) {
    idle();
    for (size_t queue = 0; queue < kMany; queue++)
        make_available(queue);
    device->poll(true);
    for (size_t queue = 0; queue < kMany; queue++)
        EXPECT_TRUE(is_used(queue)) << queue;
}

/// A polling thread is back soon, so polling them all in each round is not worth it.
TEST_F(VirtioIdle, FewAreLookedAtInARound) {
    idle();
    for (size_t queue = 0; queue < kMany; queue++)
        make_available(queue);
    rounds(1);
    EXPECT_EQ(wire->sent.size(), looks_of_round(false, 0));
}

TEST_F(VirtioIdle, OneThatIsInUseIsServedInEachRound) {
    idle();
    make_available(100);
    rounds(kTurn);
    for (int i = 0; i < 2 * kPatience; i++) {
        make_available(100);
        rounds(1);
        ASSERT_TRUE(is_used(100)) << i;
    }
}

TEST_F(VirtioIdle, AChainIsFoundWhenItComesWhileTheQueueBecomesIdle) {
    for (size_t at = kPatience - 3; at < kPatience + 3u; at++) {
        make_available(7);
        rounds(kTurn);
        ASSERT_TRUE(is_used(7));
        rounds(at);
        make_available(7);
        rounds(kTurn);
        ASSERT_TRUE(is_used(7)) << at;
        idle();
    }
}

/// The driver's thread posts each chain after the previous one came back.
TEST_F(VirtioIdle, AnotherThreadsChainsAreAllFound) {
    constexpr int kChains = 300;
    std::atomic<bool> is_over{false};
    std::thread driver([&] {
        std::mt19937 random(1);
        for (int i = 0; i < kChains; i++) {
            const size_t queue = random() % kMany;
            make_available(queue);
            while (!is_used(queue))
                std::this_thread::yield();
            // Up to about as long as it takes the queue to become idle.
            const auto begin = std::chrono::steady_clock::now();
            while (std::chrono::steady_clock::now() - begin <
                   std::chrono::microseconds(random() % 1000))
                std::this_thread::yield();
        }
        is_over = true;
    });
    while (!is_over) {
        rounds(16);
        std::this_thread::yield(); // the driver may have this CPU
    }
    driver.join();
    EXPECT_EQ(wire->sent.size(), kChains);
}

TEST_F(VirtioIdle, OneThatIsGoneIsLookedAtNoMore) {
    idle();
    ASSERT_TRUE(device->destroy_virtq(numbers[5]));
    make_available(5);
    rounds(2 * kTurn);
    EXPECT_TRUE(wire->sent.empty());
    EXPECT_FALSE(is_used(5));
}

TEST_F(VirtioIdle, TheKeyMayGo) {
    idle();
    ASSERT_TRUE(device->modify_virtq(numbers[3], VirtqState::suspended));
    ASSERT_TRUE(device->destroy_mkey(lkey));
    rounds(kTurn);
    EXPECT_EQ(status(numbers[2]).fault, VirtqFault::no_ring);
    EXPECT_EQ(status(numbers[3]).state, VirtqState::suspended) << "it is not served any more";
    for (const Number queue : numbers)
        EXPECT_TRUE(device->destroy_virtq(queue));
    rounds(kTurn);
}

TEST_F(VirtioIdle, TheMemoryMayGo) {
    const Handler handler;
    idle();
    constexpr size_t kLast = kMany - 1, kFirstThere = kMany - kPage / kRingBytes;
    {
        const Hole hole(ring_of(kFirstThere), kPage);
        rounds(2 * kTurn);
    }
    EXPECT_EQ(status(numbers[kFirstThere - 1]).state, VirtqState::ready);
    for (size_t queue = kFirstThere; queue <= kLast; queue++)
        EXPECT_EQ(status(numbers[queue]).fault, VirtqFault::no_ring) << queue;
    make_available(0);
    rounds(2 * kTurn);
    EXPECT_TRUE(is_used(0)) << "others go on";
}

} // namespace
} // namespace testbed
