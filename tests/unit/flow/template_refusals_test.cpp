// SPDX-License-Identifier: BSD-3-Clause
// What a refusal about templates points to, and ranges in them.
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;

class TemplateRefusalsTest : public TemplateTest {
  protected:
    TemplateRefusalsTest() : TemplateTest(FlowEngine::mlx5) {
        configure(64);
        start();
    }
    /// With this `last` of an item udp that matches the destination port.
    static Rule to_port(uint16_t port, uint16_t last, bool has_spec = true) {
        const auto item = [](uint16_t number, uint16_t source = 0) {
            auto udp = zeroed<rte_flow_item_udp>();
            udp.hdr.dst_port = rte_cpu_to_be_16(number);
            udp.hdr.src_port = rte_cpu_to_be_16(source);
            return udp;
        };
        const auto spec = item(port), mask = item(0xffff), end = item(last, 99); // not masked
        return Rule()
            .item(RTE_FLOW_ITEM_TYPE_IPV4)
            .item(RTE_FLOW_ITEM_TYPE_UDP, has_spec ? &spec : nullptr, &mask, &end);
    }
    void expect_range_refused(const Rule& rule, size_t item, const char* why) {
        EXPECT_THAT(refused_pattern(rule), HasSubstr(why));
        EXPECT_EQ(rte_errno, ENOTSUP);
        EXPECT_EQ(error.type, RTE_FLOW_ERROR_TYPE_ITEM_LAST);
        EXPECT_EQ(error.cause, rule.pattern() + item);
    }
};

/// By then the application's items and actions may be gone.
TEST_F(TemplateRefusalsTest, OfATableDoNotPointIntoTemplates) {
    const Rule queue = Rule().queue(1);
    const rte_flow_item_meta meta{~0u};
    const Rule with_meta =
        Rule().item(RTE_FLOW_ITEM_TYPE_META, &meta, &meta).item(RTE_FLOW_ITEM_TYPE_ETH);
    EXPECT_EQ(table_of(pattern_of(with_meta), actions_of(queue, queue), 4), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no rule has set it before those of group 0"));
    EXPECT_EQ(error.cause, nullptr) << "an item";
    const Rule none = Rule().queue(99);
    EXPECT_EQ(table_of(pattern_of(flow(0, 0)), actions_of(none, none), 4), nullptr);
    EXPECT_THAT(error.message, HasSubstr("no Rx queue 99"));
    EXPECT_EQ(error.cause, nullptr) << "an action";
}

/// As rte_flow's guide says: these bits of `last` are ignored.
TEST_F(TemplateRefusalsTest, ALastOfZeroOrOfTheSpecIsNoRange) {
    const Rule queue = Rule().queue(1);
    const std::pair<Rule, const char*> kCases[] = {{to_port(5, 0), "zero"},
                                                   {to_port(5, 5), "the spec"},
                                                   {to_port(0, 0, false), "zero without spec"}};
    for (const auto& [rule, what] : kCases) {
        auto* const pattern = pattern_of(rule);
        ASSERT_NE(pattern, nullptr) << what << ": " << error.message;
        auto* const of = table_of(pattern, actions_of(queue, queue), 4);
        ASSERT_NE(of, nullptr) << what << ": " << error.message;
        rte_flow* const made = enqueue(of, to_port(7, 9).queue(1));
        ASSERT_NE(made, nullptr) << what << ": " << error.message;
        EXPECT_THAT(dump(made), HasSubstr("udp dst 0x7:")) << what;
        EXPECT_EQ(table.async_destroy(0, made, nullptr, &error), 0);
    }
}

TEST_F(TemplateRefusalsTest, ARangeIsRefused) {
    expect_range_refused(to_port(5, 6), 1, "range on field dst: rules of a template give a value");
    expect_range_refused(to_port(0, 6, false), 1, "range on field dst");
    const rte_flow_item_tag tag{0, 1}, last{5, 1}, mask{~0u, 0xff};
    expect_range_refused(Rule().item(RTE_FLOW_ITEM_TYPE_TAG, &tag, &mask, &last), 0,
                         "no ranges of metadata");
}

} // namespace
} // namespace rawqp::test
