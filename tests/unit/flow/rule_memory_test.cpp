// SPDX-License-Identifier: BSD-3-Clause
// A rule is one block of memory, allocated many at a time, and creating it allocates nothing else.
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

struct Where {
    FlowEngine engine;
    uint32_t group;
};

class RuleMemoryTest : public TemplateTest, public testing::WithParamInterface<Where> {
  protected:
    static constexpr uint32_t kFirst = 40, kRules = 60; // in between, no list and no pool grows

    RuleMemoryTest() : TemplateTest(GetParam().engine) {
        configure(kRules);
        start();
        device.flows.reserve(kRules);
    }
    static Rule rule(uint32_t n) {
        Rule rule = flow(n >> 4, static_cast<uint16_t>(n & 0xf)).queue(n % 4).mark(n);
        rule.attr.group = GetParam().group;
        return rule;
    }
    /// Counts allocations for the rules from kFirst on.
    template <class Make> size_t counted(Make make) {
        std::vector<Rule> rules;
        for (uint32_t n = 0; n < kRules; ++n)
            rules.push_back(rule(n));
        size_t before = 0;
        for (uint32_t n = 0; n < kRules; ++n) {
            if (n == kFirst) before = allocations();
            EXPECT_NE(make(rules[n]), nullptr) << error.message;
        }
        return allocations() - before;
    }
};

TEST_P(RuleMemoryTest, NothingIsAllocatedForARuleOfAKnownShape) {
    auto* const of = table_of(pattern_of(flow(0, 0)),
                              actions_of(Rule().queue(1).mark(1), Rule().queue(0).mark(0)), kRules,
                              GetParam().group);
    ASSERT_NE(of, nullptr) << error.message;
    // For a table's rules, only the tests' device allocates. Its lists have grown to full size
    // after the first round.
    size_t by_device = 0;
    for (int round = 0; round < 2; ++round) {
        by_device = counted([&](const Rule& each) { return enqueue(of, each); });
        std::vector<rte_flow_op_result> results(kRules);
        while (table.pull(0, results, &error) > 0)
            ;
        table.flush(&error);
    }
    std::vector<rte_flow*> made;
    made.reserve(kRules);
    const size_t all = counted([&](const Rule& each) { return made.emplace_back(create(each)); });
    EXPECT_EQ(all, by_device);

    const size_t before = allocations();
    for (rte_flow* const each : made)
        EXPECT_EQ(table.destroy(each, &error), 0);
    EXPECT_EQ(allocations() - before, 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, RuleMemoryTest,
                         testing::Values(Where{FlowEngine::automatic, 0},
                                         Where{FlowEngine::mlx5, 0}, Where{FlowEngine::mlx5, 1}));

} // namespace
} // namespace rawqp::test
