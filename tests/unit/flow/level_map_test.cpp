// SPDX-License-Identifier: BSD-3-Clause
// Levels for priorities: always in order, whichever come and go, and shared within a priority where
// they are scarce.
#include "drivers/net/rawqp/ethdev/flow/level_map.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <random>
#include <vector>

namespace rawqp::test {
namespace {

constexpr uint16_t kLevels = 10;

/// Rules with their places, as in a table of rules.
class LevelMapTest : public testing::Test {
  protected:
    struct Held {
        uint32_t priority;
        bool ranked;
        std::vector<PlaceRef> places; ///< in depth order
    };
    LevelMap map;
    std::vector<Held> rules;
    Held* coming = nullptr;

    template <class Each> void each_place(Each each) {
        for (Held& rule : rules)
            for (PlaceRef& place : rule.places)
                each(place);
        for (PlaceRef& place : coming->places)
            each(place);
    }
    /// The device moves a rule to an unused level, or to one of the same priority.
    Result<void> move(const RulePlace& place, uint16_t level) {
        each_place([&](PlaceRef& other) { EXPECT_NE(other.level(), level); });
        EXPECT_TRUE(map.uses(place));
        return {};
    }
    Result<void> merge(const RulePlace& from, const RulePlace& to) {
        EXPECT_EQ(from.priority, to.priority);
        std::vector<PlaceRef*> found;
        each_place([&](PlaceRef& place) {
            if (place.is(from)) found.push_back(&place);
        });
        for (PlaceRef* const place : found)
            *place = map.share(to);
        EXPECT_FALSE(map.uses(from));
        return {};
    }
    const LevelMap::Moves moves{
        [this](const RulePlace& place, uint16_t level) { return move(place, level); },
        [this](const RulePlace& from, const RulePlace& to) { return merge(from, to); }};

    Result<void> add(uint32_t priority, std::vector<uint16_t> depths) {
        Held rule{priority, depths.size() > 1, {}};
        coming = &rule;
        for (const uint16_t depth : depths) {
            auto placed = map.acquire({priority, depth}, {rule.ranked}, kLevels, moves);
            if (!placed) return tl::unexpected(placed.error());
            rule.places.push_back(std::move(*placed));
        }
        rules.push_back(std::move(rule));
        return {};
    }
    /// Levels are in the order of priorities, and within a rule in the order of its depths.
    void check_order() {
        std::map<uint32_t, std::pair<uint16_t, uint16_t>> ends; ///< levels per priority
        for (const Held& rule : rules) {
            int before = -1;
            for (const PlaceRef& place : rule.places) {
                EXPECT_GT(place.level(), before);
                before = place.level();
                auto& [least, most] = ends.try_emplace(rule.priority, kLevels, 0).first->second;
                least = std::min(least, place.level());
                most = std::max(most, place.level());
            }
            ASSERT_LT(before, kLevels);
        }
        int before = -1;
        for (const auto& [priority, levels] : ends) {
            EXPECT_GT(levels.first, before);
            before = levels.second;
        }
    }
};

TEST_F(LevelMapTest, KeepsTheOrderOfAnyRules) {
    std::mt19937 random(20261122);
    const std::vector<std::vector<uint16_t>> kDepths{{0},    {1},    {2},      {0, 1},
                                                     {1, 2}, {0, 2}, {0, 1, 2}};
    size_t refused = 0, shared = 0;
    for (int step = 0; step < 20000; ++step) {
        if (!rules.empty() && random() % 5 < 2) {
            rules.erase(rules.begin() + static_cast<ptrdiff_t>(random() % rules.size()));
        } else {
            const uint32_t priority = static_cast<uint32_t>(random() % 12);
            const auto& depths = kDepths[random() % (random() % 4 == 0 ? kDepths.size() : 3)];
            std::vector<RulePlace> places;
            for (const uint16_t depth : depths)
                places.push_back({priority, depth});
            const bool fits = map.need(places, {depths.size() > 1}).levels <= kLevels;
            const bool added = add(priority, depths).has_value();
            ASSERT_TRUE(added || !fits);
            refused += added ? 0 : 1;
            if (added)
                shared += rules.back().places.front().place().depth != depths.front() ? 1 : 0;
        }
        check_order();
    }
    EXPECT_GT(refused, 1000u);
    EXPECT_GT(shared, 1000u);
}

TEST_F(LevelMapTest, AsManyPrioritiesAsLevelsOfAnyDepths) {
    for (const uint16_t depth : {0, 1, 2})
        for (uint32_t priority = 0; priority < kLevels; ++priority)
            ASSERT_TRUE(add(priority * 7 % kLevels, {depth}));
    check_order();
    EXPECT_EQ(map.need({}, {}).levels, kLevels);
    EXPECT_EQ(map.need({}, {}).priorities, kLevels);
    EXPECT_FALSE(add(kLevels, {0}));
}

TEST_F(LevelMapTest, ThoseOfOneDepthShareALevelBeforeOthers) {
    ASSERT_TRUE(add(0, {0, 1, 2}));
    ASSERT_TRUE(add(1, {0, 1, 2}));
    ASSERT_TRUE(add(2, {0, 1}));
    ASSERT_TRUE(add(2, {2})); // may share a level with the others
    ASSERT_TRUE(add(3, {0}));
    ASSERT_TRUE(add(4, {0}));
    check_order();
    EXPECT_TRUE(rules[3].places[0].is({2, 1}));
    EXPECT_FALSE(add(5, {0}));
}

TEST_F(LevelMapTest, ThoseOfTheLeastPriorityShareALevelFirst) {
    for (uint32_t priority = 0; priority < kLevels / 2; ++priority)
        for (const uint16_t depth : {0, 1})
            ASSERT_TRUE(add(priority, {depth}));
    ASSERT_TRUE(add(kLevels, {0}));
    check_order();
    for (size_t of_priority = 0; of_priority < kLevels; of_priority += 2)
        EXPECT_EQ(rules[of_priority].places[0].level() == rules[of_priority + 1].places[0].level(),
                  of_priority + 2 == kLevels);
}

TEST_F(LevelMapTest, WhereOneRuleTakesOverFromAnotherTurnsStayApart) {
    for (uint32_t priority = 0; priority < 9; ++priority)
        ASSERT_TRUE(add(priority, {0}));
    const auto take_over = [&](uint32_t priority, std::vector<uint32_t> at_the_same_time = {}) {
        Held rule{priority, false, {}};
        coming = &rule;
        PlaceTerms terms{false, std::move(at_the_same_time)};
        terms.apart.push_back(priority);
        const RulePlace place{priority, 0, 1};
        const bool fits = map.need({&place, 1}, terms).levels <= kLevels;
        auto placed = map.acquire(place, terms, kLevels, moves);
        EXPECT_EQ(placed.has_value(), fits);
        if (placed) rules.push_back({priority, false, {}});
        if (placed) rules.back().places.push_back(std::move(*placed));
        return placed.has_value();
    };
    EXPECT_TRUE(take_over(3));
    EXPECT_FALSE(take_over(4, {3})) << "one level would be for both";
    EXPECT_TRUE(take_over(3));
    EXPECT_TRUE(take_over(4)) << "the turns of others can share a level";
    EXPECT_TRUE(add(20, {0})) << "one that takes over from none can have both turns share a level";
    EXPECT_FALSE(take_over(5));
    check_order();
}

TEST(LevelMap, AMoveThatFailsIsToldAndNothingIsTaken) {
    LevelMap map;
    const LevelMap::Moves stay{
        [](const RulePlace&, uint16_t) -> Result<void> { return fail(ENOMEM, "no"); },
        [](const RulePlace&, const RulePlace&) -> Result<void> { return fail(ENOMEM, "no"); }};
    constexpr RulePlace kPlaces[] = {{0, 0}, {0, 1}, {0, 2}, {1, 0}}; // levels 0 to 3
    std::vector<PlaceRef> held;
    for (const RulePlace& place : kPlaces) {
        auto made = map.acquire(place, {}, 4, stay);
        ASSERT_TRUE(made);
        held.push_back(std::move(*made));
    }
    const auto no_merge = map.acquire({2, 0}, {}, 4, stay);
    ASSERT_FALSE(no_merge);
    EXPECT_EQ(no_merge.error().code, ENOMEM);
    held.front() = {}; // room only at the front
    const auto none = map.acquire({0, 3}, {}, 4, stay);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ENOMEM);
    EXPECT_EQ(map.level_of({0, 1}), 1);
    EXPECT_TRUE(map.acquire({0, 1}, {}, 4, stay));
}

} // namespace
} // namespace rawqp::test
