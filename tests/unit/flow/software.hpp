// SPDX-License-Identifier: BSD-3-Clause
// A flow table whose groups may be in software steering, on a fake device.
#pragma once

#include "tests/unit/flow/templates.hpp"
#include "tests/unit/verbs/fake_dr.hpp"

namespace rawqp::test {

class SoftwareTest : public testing::Test {
  protected:
    FakeDevice device{4};
    std::optional<verbs_test::FakeDr> dr;
    std::unique_ptr<RssQps> qps;
    std::unique_ptr<Steering> steering;
    std::unique_ptr<FlowTable> table;
    rte_flow_error error{};

    SoftwareTest() {
        device.offer_mlx5_flows();
        device.offers_devx = true;
        dr.emplace(device);
        qps =
            std::make_unique<RssQps>(device.api(), device.context(), device.pd(), device.rx_queues);
        steering = make_steering(device, *qps, FlowEngine::mlx5);
        table = std::make_unique<FlowTable>(*steering, device.rx_queues);
        const rte_flow_port_attr port{};
        const rte_flow_queue_attr queue{64};
        const rte_flow_queue_attr* sizes[] = {&queue};
        EXPECT_EQ(table->configure(port, sizes, &error), 0);
        EXPECT_TRUE(table->start());
    }
    ~SoftwareTest() override {
        table.reset();
        steering.reset();
        qps.reset();
        dr.reset();
        EXPECT_THAT(device.violations, testing::IsEmpty());
        EXPECT_THAT(device.devx_objects, testing::IsEmpty());
        EXPECT_THAT(device.flows, testing::IsEmpty());
    }

    rte_flow* create(const Rule& rule) {
        return table->create(&rule.attr, rule.pattern(), rule.actions(), &error);
    }
    static Rule of(uint32_t group, Rule rule) {
        rule.attr.group = group;
        return rule;
    }
    static Rule jump(uint32_t group) {
        return led(Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_IPV4), group);
    }
    static Rule led(Rule rule, uint32_t group) {
        const rte_flow_action_jump conf{group};
        return rule.action(RTE_FLOW_ACTION_TYPE_JUMP, &conf);
    }
    static Rule tagged(uint32_t group) {
        return of(group, Rule().item(RTE_FLOW_ITEM_TYPE_ETH).item(RTE_FLOW_ITEM_TYPE_VLAN));
    }
    /// A rule that only commands can express.
    static Rule tag_off(uint32_t group) {
        return tagged(group).action(RTE_FLOW_ACTION_TYPE_OF_POP_VLAN).queue(1);
    }
    /// A table with these actions and masks, for UDP over IPv4 if not otherwise said.
    rte_flow_template_table* create_table(const Rule& actions, const Rule& masks,
                                          uint32_t group = 1, uint32_t rules = 64,
                                          const Rule& items = flow(0, 0)) {
        rte_flow_pattern_template_attr of_pattern{};
        of_pattern.ingress = 1;
        rte_flow_actions_template_attr of_actions{};
        of_actions.ingress = 1;
        auto* pattern = table->create_pattern_template(of_pattern, items.pattern(), &error);
        auto* action =
            table->create_actions_template(of_actions, actions.actions(), masks.actions(), &error);
        rte_flow_template_table_attr attributes{};
        attributes.flow_attr.group = group;
        attributes.flow_attr.ingress = 1;
        attributes.nb_flows = rules;
        return table->create_template_table(attributes, {&pattern, 1}, {&action, 1}, &error);
    }
    rte_flow_template_table* marking_table(uint32_t group = 1, uint32_t rules = 64) {
        return create_table(Rule().queue(1).mark(1), Rule().queue(0).mark(0), group, rules);
    }
    /// How many rules each matcher of groups has room for, as a power of two.
    std::vector<uint32_t> rooms() const {
        std::vector<uint32_t> found;
        for (const auto& matcher : dr->matchers)
            if (matcher->table->level != 0) found.push_back(matcher->log_room);
        return found;
    }
    rte_flow* enqueue(rte_flow_template_table* to, const Rule& rule) {
        return table->async_create(0, to, rule.pattern(), 0, rule.actions(), 0, nullptr, &error);
    }
    int pull() {
        std::vector<rte_flow_op_result> results(64);
        return table->pull(0, results, &error);
    }
    std::vector<const verbs_test::DrRule*> rules_of(uint32_t group) const {
        std::vector<const verbs_test::DrRule*> found;
        for (const auto& rule : dr->rules)
            if (rule->group() == group) found.push_back(rule.get());
        return found;
    }
};

} // namespace rawqp::test
