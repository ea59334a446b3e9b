// SPDX-License-Identifier: BSD-3-Clause
// When a device thread spins and when it sleeps.
#include "app/softhca/core/idle_rest.hpp"

#include <gtest/gtest.h>

namespace softhca::core {
namespace {

/// Rounds without work until the thread sleeps.
uint64_t spins(IdleRest& rest) {
    uint64_t rounds = 0;
    while (rest.idle() == 0)
        rounds++;
    return rounds;
}

TEST(IdleRest, SpinsForLongOnlyWithACpuToSpare) {
    IdleRest alone(3, 1), shared(2, 1), two_threads(3, 2);
    EXPECT_EQ(spins(alone), IdleRest::kSpins);
    EXPECT_EQ(spins(shared), IdleRest::kFewSpins);
    EXPECT_EQ(spins(two_threads), IdleRest::kFewSpins);
}

TEST(IdleRest, ExpectsMoreOfWhatIsAwaited) {
    IdleRest rest(2, 1);
    rest.busy(true);
    EXPECT_EQ(spins(rest), IdleRest::kSpinsAwaited + IdleRest::kFewSpins);
    rest.busy(false);
    EXPECT_EQ(spins(rest), IdleRest::kFewSpins) << "it has slept, and nothing was awaited since";
}

TEST(IdleRest, TrafficDoesNotEndTheWait) {
    IdleRest rest(2, 1);
    rest.busy(true);
    for (uint64_t round = 0; round < IdleRest::kSpinsAwaited / 2; round++)
        ASSERT_EQ(rest.idle(), 0u);
    rest.busy(false);
    EXPECT_EQ(spins(rest), IdleRest::kSpinsAwaited / 2 + IdleRest::kFewSpins);
}

TEST(IdleRest, LeavesTheOnlyCpuToTheOwner) {
    IdleRest rest(1, 1);
    rest.busy(true);
    EXPECT_EQ(spins(rest), IdleRest::kFewSpins);
}

TEST(IdleRest, SleepsForLongerAndLonger) {
    IdleRest rest(1, 1);
    spins(rest);
    EXPECT_TRUE(rest.rested());
    uint64_t last = IdleRest::kMinSleepNs;
    for (uint64_t sleeps = 1; sleeps < IdleRest::kSleepsPerStep; sleeps++)
        ASSERT_EQ(rest.idle(), last);
    EXPECT_EQ(rest.idle(), 2 * last);
    for (uint64_t sleeps = 0; sleeps < 4 * IdleRest::kSleepsPerStep; sleeps++) {
        const uint64_t ns = rest.idle();
        EXPECT_GE(ns, last);
        last = ns;
    }
    EXPECT_EQ(last, IdleRest::kMaxSleepNs);
    rest.busy(false);
    EXPECT_FALSE(rest.rested());
    spins(rest);
    EXPECT_EQ(rest.idle(), IdleRest::kMinSleepNs);
}

} // namespace
} // namespace softhca::core
