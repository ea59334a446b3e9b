// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/rule_pool.hpp"

#include "tests/unit/flow/allocations.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace rawqp::test {
namespace {

struct Taken {
    uint8_t* memory;
    size_t bytes;
    uint8_t written;
};

class RulePoolTest : public testing::Test {
  protected:
    /// Takes blocks of various sizes and fills them.
    void take(size_t count) {
        for (size_t i = 0; i < count; ++i) {
            const size_t bytes = 16 + 97 * i % 1500;
            auto* const memory = static_cast<uint8_t*>(pool.take(bytes));
            EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignof(std::max_align_t), 0u);
            taken.push_back({memory, bytes, static_cast<uint8_t>(i)});
            std::memset(memory, taken.back().written, bytes);
        }
    }
    /// Checks and releases all but the first ones.
    void release(size_t left) {
        for (; taken.size() > left; taken.pop_back()) {
            const auto& [memory, bytes, written] = taken.back();
            EXPECT_EQ(std::vector<uint8_t>(memory, memory + bytes),
                      std::vector<uint8_t>(bytes, written));
            pool.release(memory, bytes);
        }
    }

    RulePool pool;
    std::vector<Taken> taken;
};

TEST_F(RulePoolTest, NobodyWritesIntoAnothersPiece) {
    take(300);
    release(100);
    take(250);
    release(0);
}

TEST_F(RulePoolTest, PiecesComeTogetherAndComeAgain) {
    constexpr size_t kBytes = 272, kPieces = 3 * RulePool::kTogether;
    std::vector<void*> all(kPieces);
    const auto take_all = [&] {
        const size_t before = allocations();
        for (void*& memory : all)
            memory = pool.take(kBytes);
        return allocations() - before;
    };
    const auto release_all = [&] {
        for (void* const memory : all)
            pool.release(memory, kBytes);
    };
    void* const kept = pool.take(kBytes);
    EXPECT_LE(take_all(), 3u + 2); // plus the growth of their list
    release_all();
    EXPECT_EQ(take_all(), 0u);
    release_all();
    pool.release(kept, kBytes); // the last one: all memory returns to the heap
    EXPECT_GE(take_all(), 3u);
    release_all();
}

#if RAWQP_POISONS
TEST_F(RulePoolTest, WhoTouchesFreePiecesIsReported) {
    constexpr size_t kBytes = 40; // in a block of 48
    void* const kept = pool.take(kBytes);
    auto* const freed = static_cast<std::byte*>(pool.take(kBytes));
    EXPECT_EQ(__asan_region_is_poisoned(freed, kBytes), nullptr);
    EXPECT_TRUE(__asan_address_is_poisoned(freed + kBytes)) << "beyond its end";
    pool.release(freed, kBytes);
    for (const size_t at : {size_t{0}, kBytes - 1})
        EXPECT_TRUE(__asan_address_is_poisoned(freed + at)) << at;
    EXPECT_EQ(pool.take(kBytes), freed);
    EXPECT_EQ(__asan_region_is_poisoned(freed, kBytes), nullptr);
    pool.release(freed, kBytes);
    pool.release(kept, kBytes);
}
#endif

} // namespace
} // namespace rawqp::test
