// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/adjusted_clock.hpp"

#include <gtest/gtest.h>

namespace rawqp {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr int64_t kPpm = 1 << 16;

TEST(AdjustedClock, FollowsTheOtherUntilItIsSet) {
    AdjustedClock clock;
    EXPECT_EQ(clock.at(5), 5u);
    clock.set(100, 2000);
    EXPECT_EQ(clock.at(100), 2000u);
    EXPECT_EQ(clock.at(150), 2050u);
    EXPECT_EQ(clock.at(90), 1990u) << "a stamp from before";
}

TEST(AdjustedClock, IsPutForwardAndBack) {
    AdjustedClock clock;
    clock.adjust(100, 50);
    EXPECT_EQ(clock.at(200), 250u);
    clock.adjust(200, -80);
    EXPECT_EQ(clock.at(200), 170u);
    EXPECT_EQ(clock.at(300), 270u);
}

TEST(AdjustedClock, RunsFasterOrSlower) {
    AdjustedClock clock;
    const uint64_t start = 1'700'000'000 * kSecond; // like real time
    clock.set_rate(start, 100 * kPpm);
    EXPECT_EQ(clock.at(start), start);
    EXPECT_EQ(clock.at(start + kSecond), start + kSecond + 100'000);
    clock.set_rate(start + kSecond, -kPpm / 2);
    EXPECT_EQ(clock.at(start + 3 * kSecond), start + 3 * kSecond + 100'000 - 1'000);
    clock.adjust(start + 3 * kSecond, 7);
    EXPECT_EQ(clock.at(start + 5 * kSecond), start + 5 * kSecond + 100'000 - 2'000 + 7)
        << "the rate stays";
}

TEST(AdjustedClock, RunsForYearsWithoutOverflow) {
    AdjustedClock clock;
    clock.set_rate(0, 1000 * kPpm);
    const uint64_t years = 10 * 366 * 86400 * kSecond;
    EXPECT_EQ(clock.at(years), years + years / 1000);
}

} // namespace
} // namespace rawqp
