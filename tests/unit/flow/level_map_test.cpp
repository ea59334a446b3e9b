// SPDX-License-Identifier: BSD-3-Clause
// Levels for priorities: always in their order, whichever come and go.
#include "drivers/net/rawqp/ethdev/flow/level_map.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include <random>
#include <set>
#include <vector>

namespace rawqp::test {
namespace {

constexpr uint16_t kLevels = 10;

TEST(LevelMap, KeepsTheOrderOfAnyPlaces) {
    std::mt19937 random(20261122);
    LevelMap map;
    std::vector<PlaceRef> held;
    std::vector<RulePlace> places;
    for (int step = 0; step < 20000; ++step) {
        if (!places.empty() && random() % 3 == 0) {
            const size_t at = random() % places.size();
            held.erase(held.begin() + static_cast<ptrdiff_t>(at));
            places.erase(places.begin() + static_cast<ptrdiff_t>(at));
        } else {
            const RulePlace place{static_cast<uint32_t>(random() % 12),
                                  static_cast<uint16_t>(random() % 3)};
            std::set<RulePlace> all(places.begin(), places.end());
            all.insert(place);
            const bool fits = all.size() <= kLevels;
            EXPECT_EQ(map.fits({&place, 1}, kLevels), fits);
            std::set<uint16_t> taken; // a place moves to a level that is free
            for (const PlaceRef& ref : held)
                taken.insert(ref.level());
            auto done = map.acquire(place, kLevels,
                                    [&](const RulePlace& other, uint16_t level) -> Result<void> {
                                        EXPECT_FALSE(taken.contains(level));
                                        taken.erase(map.level_of(other));
                                        taken.insert(level);
                                        return {};
                                    });
            ASSERT_EQ(done.has_value(), fits);
            if (!done) continue;
            held.push_back(std::move(*done));
            places.push_back(place);
        }
        std::set<RulePlace> all(places.begin(), places.end());
        int before = -1;
        for (const RulePlace& place : all) {
            EXPECT_GT(map.level_of(place), before);
            before = map.level_of(place);
        }
        ASSERT_LT(before, kLevels);
    }
}

TEST(LevelMap, AMoveThatFailsIsToldAndNothingIsTaken) {
    LevelMap map;
    const auto stay = [](const RulePlace&, uint16_t) -> Result<void> { return fail(ENOMEM, "no"); };
    constexpr RulePlace kPlaces[] = {{0, 0}, {0, 1}, {0, 2}, {1, 0}}; // levels 0 to 3
    std::vector<PlaceRef> held;
    for (const RulePlace& place : kPlaces) {
        auto made = map.acquire(place, 4, stay);
        ASSERT_TRUE(made);
        held.push_back(std::move(*made));
    }
    held.front() = {}; // room in front only
    const auto none = map.acquire({0, 3}, 4, stay);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ENOMEM);
    EXPECT_EQ(map.level_of({0, 1}), 1);
    EXPECT_TRUE(map.acquire({0, 1}, 4, stay));
}

} // namespace
} // namespace rawqp::test
