// SPDX-License-Identifier: BSD-3-Clause
// What an operation on the set of a port's rules costs: the slots that it looks at.
#include "drivers/net/rawqp/ethdev/flow/pointer_set.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace rawqp::test {
namespace {

struct CountSteps {
    static inline size_t steps = 0;
    void operator()() const { ++steps; }
};
using CountingSet = PointerSet<const uint32_t, CountSteps>;

struct Costs {
    double insert, find, miss, erase; ///< slots per operation
};

uint64_t hash_of(uint64_t number) {
    const uint64_t product = (number + 1) * 0x9e3779b97f4a7c15u;
    return product ^ product >> 32;
}

Costs costs_of(uint32_t count) {
    std::vector<uint32_t> objects(count);
    CountingSet set;
    const auto each = [&](auto operation) {
        CountSteps::steps = 0;
        for (uint32_t i = 0; i < count; ++i)
            operation(i);
        return static_cast<double>(CountSteps::steps) / count;
    };
    const auto find = [&](uint64_t hash, const uint32_t& wanted) {
        return set.find(hash, [&](const uint32_t& object) { return &object == &wanted; });
    };
    Costs costs{};
    costs.insert = each([&](uint32_t i) { set.insert(hash_of(i), objects[i]); });
    costs.find = each([&](uint32_t i) { EXPECT_EQ(find(hash_of(i), objects[i]), &objects[i]); });
    costs.miss =
        each([&](uint32_t i) { EXPECT_EQ(find(hash_of(i + count), objects[i]), nullptr); });
    costs.erase = each([&](uint32_t i) { set.erase(hash_of(i), objects[i]); });
    EXPECT_EQ(set.size(), 0u);
    return costs;
}

/// Those of insertion include the growth of the set, as seen over all objects.
TEST(PointerSet, CostsTheSameWhateverTheNumber) {
    for (const uint32_t count : {10u, 1'000u, 100'000u}) {
        const Costs costs = costs_of(count);
        EXPECT_LT(costs.insert, 4) << count;
        EXPECT_LT(costs.find, 2) << count;
        EXPECT_LT(costs.miss, 3) << count;
        EXPECT_LT(costs.erase, 4) << count;
    }
}

} // namespace
} // namespace rawqp::test
