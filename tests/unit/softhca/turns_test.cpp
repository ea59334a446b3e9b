// SPDX-License-Identifier: BSD-3-Clause
// Objects that are polled in turn: each gets its turn in time, and no change of a record is missed.
#include "app/softhca/core/turns.hpp"

#include <atomic>
#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <thread>

namespace {

using namespace softhca::core;

struct Member {
    size_t number = 0;
    DoorbellRegister record;
};

class TurnsTest : public testing::Test {
  protected:
    void make(size_t count) {
        while (members.size() < count) {
            Member& one = members.emplace_back();
            one.number = members.size() - 1;
            add(one);
        }
    }
    void add(Member& one, uint32_t seen = 0) { turns.add(one, Doorbell(one.record), seen); }
    std::set<size_t> round(size_t looks) {
        std::set<size_t> found;
        turns.round(looks, [&](Member& one) { found.insert(one.number); });
        return found;
    }

    std::deque<Member> members;
    Turns<Member> turns;
};

TEST_F(TurnsTest, NothingIsFoundWhereNothingWasWritten) {
    make(10);
    for (int i = 0; i < 10; i++)
        EXPECT_TRUE(round(3).empty());
    EXPECT_EQ(turns.size(), 10u);
}

TEST_F(TurnsTest, EachHasItsTurnInTime) {
    constexpr size_t kCount = 100, kLooks = 7;
    make(kCount);
    for (size_t number = 0; number < kCount; number++) {
        members[number].record.write(1);
        std::set<size_t> found;
        for (size_t rounds = 0; found.empty(); rounds++) {
            ASSERT_LE(rounds, kCount / kLooks);
            found = round(kLooks);
        }
        EXPECT_EQ(found, std::set{number});
        EXPECT_EQ(turns.size(), kCount - 1) << "who is found has left";
        members[number].record.write(0);
        add(members[number]);
    }
}

TEST_F(TurnsTest, OneRoundFindsAllThatHaveChanged) {
    make(10);
    std::set<size_t> all;
    for (Member& one : members) {
        one.record.write(1);
        all.insert(one.number);
    }
    EXPECT_EQ(round(100), all);
    EXPECT_TRUE(round(100).empty());
}

/// Whatever others are added and removed.
TEST_F(TurnsTest, NobodyIsPassedOver) {
    constexpr size_t kCount = 50, kLooks = 4;
    std::mt19937 random(1);
    make(kCount);
    for (int i = 0; i < 300; i++) {
        const size_t wanted = random() % kCount;
        members[wanted].record.write(1);
        bool is_found = false;
        for (size_t rounds = 0; !is_found; rounds++) {
            ASSERT_LE(rounds, 2 * kCount / kLooks) << "round " << i;
            is_found = round(kLooks).contains(wanted);
            Member& other = members[random() % kCount];
            if (other.number == wanted) continue;
            turns.remove(other);
            add(other); // after all others
        }
        members[wanted].record.write(0);
        add(members[wanted]);
    }
    EXPECT_EQ(turns.size(), kCount);
}

/// As many as a round looks at are found each time, and come back at once.
TEST_F(TurnsTest, ThoseThatComeBackWithSomethingToDoAreBehindTheOthers) {
    constexpr size_t kCount = 50, kLooks = 4;
    make(kCount);
    round(kLooks); // the turn is not at the first one
    std::deque<Member> busy(kLooks);
    for (Member& one : busy)
        one.number = kCount;
    for (Member& one : busy) {
        one.record.write(1);
        add(one);
    }
    members[0].record.write(1);
    bool is_found = false;
    for (size_t rounds = 0; !is_found; rounds++) {
        ASSERT_LE(rounds, kCount / kLooks + 1);
        turns.round(kLooks, [&](Member& one) {
            if (one.number == kCount)
                add(one); // its record still differs from the value seen
            else
                is_found = true;
        });
    }
}

TEST_F(TurnsTest, WhatWasWrittenBeforeItWasAddedIsFound) {
    make(5);
    Member late;
    late.number = 5;
    late.record.write(1);
    add(late, 0);
    EXPECT_EQ(round(100), std::set<size_t>{5});
}

/// The owner's thread writes a record once the previous one was found: no write is lost.
TEST_F(TurnsTest, AnotherThreadsWritesAreAllFound) {
    constexpr size_t kCount = 100;
    constexpr uint32_t kWrites = 20'000;
    make(kCount);
    std::atomic<uint32_t> found{0};
    std::thread owner([&] {
        for (uint32_t i = 1; i <= kWrites; i++) {
            members[i % kCount].record.write(i);
            while (found.load(std::memory_order_acquire) < i)
                std::this_thread::yield();
        }
    });
    for (uint32_t empty = 0; found.load(std::memory_order_relaxed) < kWrites;) {
        empty++;
        turns.round(16, [&](Member& one) {
            empty = 0;
            const uint32_t now = found.load(std::memory_order_relaxed) + 1;
            EXPECT_EQ(one.number, now % kCount);
            turns.add(one, Doorbell(one.record), now);
            found.store(now, std::memory_order_release);
        });
        if (empty > 16) std::this_thread::yield(); // the owner may have this CPU
    }
    owner.join();
}

TEST(LooksOfRound, GrowWithWorkAndAfterARest) {
    EXPECT_LE(looks_of_round(false, 0), 64u) << "they are paid for in each round";
    EXPECT_GT(looks_of_round(false, 128), looks_of_round(false, 0));
    EXPECT_GT(looks_of_round(true, 0), 1000u);
}

} // namespace
