// SPDX-License-Identifier: BSD-3-Clause
// Action age: what its counter reports and when, who is notified, and what resets it.
#include "drivers/net/rawqp/ethdev/flow/age.hpp"
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AgeTest : public FlowTableTest {
  protected:
    AgeTest() : FlowTableTest(FlowEngine::mlx5) { start(); }

    static Rule aging(uint32_t source, uint32_t timeout, void* context) {
        return add_age(Rule()
                           .item(RTE_FLOW_ITEM_TYPE_ETH)
                           .item(RTE_FLOW_ITEM_TYPE_IPV4, &from(source))
                           .queue(0),
                       timeout, context);
    }
    static Rule add_age(Rule rule, uint32_t timeout, void* context) {
        rte_flow_action_age conf{};
        conf.timeout = timeout & 0xffffff;
        conf.context = context;
        return rule.action(RTE_FLOW_ACTION_TYPE_AGE, &conf);
    }
    static const rte_flow_item_ipv4& from(uint32_t source) {
        static rte_flow_item_ipv4 ipv4;
        ipv4 = zeroed<rte_flow_item_ipv4>();
        ipv4.hdr.src_addr = rte_cpu_to_be_32(source);
        return ipv4;
    }
    rte_flow_action_handle* share_age(uint32_t timeout, void* context) {
        rte_flow_indir_action_conf directions{};
        directions.ingress = 1;
        const Rule age = add_age(Rule(), timeout, context);
        return table.share(&directions, age.actions(), &error);
    }
    /// Looks that long after now, plus a margin so that all rules are at least that old.
    bool look(milliseconds after) { return table.look_at_ages(now_ + after); }
    /// All rules have been hit that many times.
    void hit(uint8_t times) {
        device.devx_answer = Bytes(24);
        device.devx_answer[15] = times;
    }
    std::vector<void*> aged() {
        std::vector<void*> contexts(static_cast<size_t>(table.aged(nullptr, 0, &error)));
        EXPECT_EQ(table.aged(contexts.data(), static_cast<uint32_t>(contexts.size()), &error),
                  static_cast<int>(contexts.size()));
        return contexts;
    }
    template <class Result> Result query(rte_flow* rule, rte_flow_action_type type) {
        const rte_flow_action action{type, nullptr};
        Result result{};
        EXPECT_EQ(table.query(rule, &action, &result, &error), 0) << error.message;
        return result;
    }

    int contexts_[4]{};

  private:
    const FlowAge::Time now_ = FlowAge::Clock::now() + milliseconds(500);
};

TEST_F(AgeTest, IsToldOnceItsTimeIsOver) {
    int watched = 0;
    table.on_ages([&] { ++watched; });
    EXPECT_FALSE(table.has_ages());
    ASSERT_NE(create(aging(1, 10, &contexts_[0])), nullptr) << error.message;
    rte_flow* const nameless = create(aging(2, 20, nullptr));
    EXPECT_EQ(watched, 2);
    EXPECT_FALSE(look(milliseconds(9000)));
    EXPECT_THAT(aged(), IsEmpty());
    EXPECT_TRUE(look(seconds(10)));
    EXPECT_THAT(aged(), ElementsAre(&contexts_[0]));
    EXPECT_FALSE(look(seconds(12)));
    EXPECT_TRUE(look(seconds(20))); // for another rule, as the application has asked
    EXPECT_THAT(aged(), ElementsAre(&contexts_[0], nameless));
    EXPECT_EQ(table.destroy(nameless, &error), 0);
    EXPECT_THAT(aged(), ElementsAre(&contexts_[0]));
    table.flush(&error);
    EXPECT_FALSE(look(seconds(30)));
    EXPECT_FALSE(table.has_ages());
}

TEST_F(AgeTest, TheApplicationIsToldOfNoMoreUntilItAsks) {
    ASSERT_NE(create(aging(1, 1, &contexts_[0])), nullptr);
    ASSERT_NE(create(aging(2, 5, &contexts_[1])), nullptr);
    EXPECT_TRUE(look(seconds(1)));
    EXPECT_FALSE(look(seconds(6)));
    EXPECT_THAT(aged(), ElementsAre(&contexts_[0], &contexts_[1]));
    void* one = nullptr;
    EXPECT_EQ(table.aged(nullptr, 1, &error), -EINVAL) << "no room for it";
    EXPECT_EQ(table.aged(&one, 1, &error), 1);
    EXPECT_EQ(one, &contexts_[0]);
}

TEST_F(AgeTest, PacketsKeepARuleYoung) {
    rte_flow* const rule = create(aging(1, 16, &contexts_[0]));
    ASSERT_NE(rule, nullptr) << error.message;
    const unsigned before = device.calls("devx_obj_query");
    EXPECT_FALSE(look(milliseconds(100)));
    EXPECT_EQ(device.calls("devx_obj_query"), before); // a look is not due yet
    hit(1);
    EXPECT_FALSE(look(seconds(15)));
    EXPECT_FALSE(look(seconds(30)));
    EXPECT_TRUE(look(seconds(31)));
    hit(2); // too late
    EXPECT_FALSE(look(seconds(40)));
    EXPECT_THAT(aged(), ElementsAre(&contexts_[0]));
}

TEST_F(AgeTest, CountingIsApart) {
    rte_flow* const rule = create(aging(1, 16, &contexts_[0]).action(RTE_FLOW_ACTION_TYPE_COUNT));
    ASSERT_NE(rule, nullptr) << error.message;
    hit(3);
    EXPECT_FALSE(look(seconds(10)));
    const rte_flow_action action{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    rte_flow_query_count counted{};
    counted.reset = 1;
    EXPECT_EQ(table.query(rule, &action, &counted, &error), 0);
    EXPECT_EQ(counted.hits, 3u);
    EXPECT_TRUE(look(seconds(26))); // the reset did not count as a packet
    rte_flow* const silent = create(aging(2, 16, &contexts_[1]));
    EXPECT_EQ(table.query(silent, &action, &counted, &error), -EINVAL);
    EXPECT_THAT(error.message, HasSubstr("no count action"));
    EXPECT_EQ(query<rte_flow_query_age>(silent, RTE_FLOW_ACTION_TYPE_AGE).aged, 0u);
    rte_flow* const ageless = create(udp_to(1, 1).action(RTE_FLOW_ACTION_TYPE_COUNT));
    const rte_flow_action age{RTE_FLOW_ACTION_TYPE_AGE, nullptr};
    EXPECT_EQ(table.query(ageless, &age, &counted, &error), -EINVAL);
    EXPECT_THAT(error.message, HasSubstr("no age action"));
}

TEST_F(AgeTest, RulesShareOneThatIsTouched) {
    auto* const age = share_age(10, nullptr);
    ASSERT_NE(age, nullptr) << error.message;
    for (const uint32_t source : {1u, 2u})
        ASSERT_NE(create(Rule()
                             .item(RTE_FLOW_ITEM_TYPE_ETH)
                             .item(RTE_FLOW_ITEM_TYPE_IPV4, &from(source))
                             .queue(0)
                             .indirect(age)),
                  nullptr)
            << error.message;
    EXPECT_TRUE(look(seconds(10)));
    EXPECT_THAT(aged(), ElementsAre(age)); // listed once
    rte_flow_update_age update{};
    update.touch = 1;
    update.timeout_valid = 1;
    update.timeout = 30;
    ASSERT_EQ(table.update_shared(age, &update, &error), 0) << error.message;
    EXPECT_THAT(aged(), IsEmpty());
    rte_flow_query_age result{};
    EXPECT_EQ(table.query_shared(age, &result, &error), 0);
    EXPECT_EQ(result.aged, 0u);
    EXPECT_EQ(result.sec_since_last_hit_valid, 1u);
    EXPECT_FALSE(look(seconds(28)));
    EXPECT_TRUE(look(seconds(30)));
    EXPECT_EQ(table.unshare(age, &error), -EBUSY);
    table.flush(&error);
    EXPECT_EQ(table.unshare(age, &error), 0);
    EXPECT_FALSE(look(seconds(99)));
    EXPECT_FALSE(table.has_ages());
}

TEST_F(AgeTest, RulesThatShareOneCountForThemselves) {
    auto* const age = share_age(10, nullptr);
    std::vector<rte_flow*> rules;
    for (const uint32_t source : {1u, 2u}) {
        rules.push_back(create(Rule()
                                   .item(RTE_FLOW_ITEM_TYPE_ETH)
                                   .item(RTE_FLOW_ITEM_TYPE_IPV4, &from(source))
                                   .queue(0)
                                   .action(RTE_FLOW_ACTION_TYPE_COUNT)
                                   .indirect(age)));
        ASSERT_NE(rules.back(), nullptr) << error.message;
    }
    hit(3);
    EXPECT_FALSE(look(seconds(9)));
    EXPECT_FALSE(look(seconds(18)));
    EXPECT_TRUE(look(seconds(19)));
    EXPECT_THAT(aged(), ElementsAre(age));
    for (rte_flow* const rule : rules)
        EXPECT_EQ(query<rte_flow_query_count>(rule, RTE_FLOW_ACTION_TYPE_COUNT).hits, 3u);
    rte_flow_update_age touch{};
    touch.touch = 1;
    ASSERT_EQ(table.update_shared(age, &touch, &error), 0) << error.message;
    // One rule goes, and one keeps counting without the age: neither resets the age any more.
    EXPECT_EQ(table.destroy(rules[0], &error), 0);
    const Rule other = Rule().queue(1).action(RTE_FLOW_ACTION_TYPE_COUNT);
    ASSERT_EQ(table.update_actions(rules[1], other.actions(), &error), 0) << error.message;
    hit(5);
    EXPECT_TRUE(look(seconds(10)));
    EXPECT_EQ(query<rte_flow_query_count>(rules[1], RTE_FLOW_ACTION_TYPE_COUNT).hits, 5u);
    EXPECT_EQ(table.unshare(age, &error), 0);
}

TEST_F(AgeTest, ARuleThatCountsNoMoreGoesOnSharingOne) {
    auto* const age = share_age(10, nullptr);
    rte_flow* const rule = create(Rule()
                                      .item(RTE_FLOW_ITEM_TYPE_ETH)
                                      .item(RTE_FLOW_ITEM_TYPE_IPV4, &from(1))
                                      .queue(0)
                                      .action(RTE_FLOW_ACTION_TYPE_COUNT)
                                      .indirect(age));
    ASSERT_NE(rule, nullptr) << error.message;
    EXPECT_FALSE(look(seconds(9)));
    ASSERT_EQ(table.update_actions(rule, Rule().queue(1).indirect(age).actions(), &error), 0)
        << error.message;
    const unsigned before = device.calls("devx_obj_query");
    hit(1);
    EXPECT_FALSE(look(seconds(18)));
    EXPECT_EQ(device.calls("devx_obj_query"), before + 1); // the rule's own counter is gone
    EXPECT_TRUE(look(seconds(28)));
    table.flush(&error);
    EXPECT_EQ(table.unshare(age, &error), 0);
}

TEST_F(AgeTest, AnUpdateOfActionsBringsANewOne) {
    rte_flow* const rule = create(aging(1, 10, nullptr));
    const Rule next = add_age(Rule().queue(1), 20, nullptr);
    ASSERT_EQ(table.update_actions(rule, next.actions(), &error), 0) << error.message;
    EXPECT_FALSE(look(seconds(19)));
    EXPECT_TRUE(look(seconds(20)));
    EXPECT_THAT(aged(), ElementsAre(rule));
    ASSERT_EQ(table.update_actions(rule, Rule().queue(1).actions(), &error), 0);
    EXPECT_THAT(aged(), IsEmpty());
}

TEST_F(AgeTest, Refusals) {
    EXPECT_THAT(refused(aging(1, 0, nullptr)), HasSubstr("action age: timeout 0"));
    EXPECT_THAT(refused(add_age(aging(1, 5, nullptr), 5, nullptr)),
                HasSubstr("the rule has one already"));
    auto* const age = share_age(10, nullptr);
    rte_flow_indir_action_conf directions{};
    directions.ingress = 1;
    const rte_flow_action count{RTE_FLOW_ACTION_TYPE_COUNT, nullptr};
    auto* const shared = table.share(&directions, &count, &error);
    EXPECT_THAT(refused(udp_to(1, 1).indirect(age).indirect(shared)),
                HasSubstr("a rule has one counter"));
    EXPECT_THAT(refused(aging(1, 5, nullptr).indirect(shared)),
                HasSubstr("packets of other rules"));
    EXPECT_EQ(table.unshare(shared, &error), 0);
    EXPECT_EQ(share_age(0, nullptr), nullptr);
    rte_flow_update_age update{};
    update.timeout_valid = 1;
    EXPECT_EQ(table.update_shared(age, &update, &error), -EINVAL);
    EXPECT_THAT(error.message, HasSubstr("timeout 0"));
    // What testpmd passes for an action without a configuration.
    EXPECT_EQ(table.update_shared(age, nullptr, &error), -EINVAL);
    EXPECT_THAT(error.message, HasSubstr("the indirect age has no update given"));
    EXPECT_FALSE(look(seconds(9))) << "it is as before";
    EXPECT_EQ(table.unshare(age, &error), 0);
}

} // namespace
} // namespace rawqp::test
