// SPDX-License-Identifier: BSD-3-Clause
// Templates, template tables and their rules.
#pragma once

#include "tests/unit/flow/allocations.hpp"
#include "tests/unit/flow/flow_table.hpp"
#include "tests/unit/written.hpp"

namespace rawqp::test {

/// Matches UDP over IPv4 by source address and destination port.
inline Rule flow(uint32_t source, uint16_t port) {
    auto ipv4 = zeroed<rte_flow_item_ipv4>(), ipv4_mask = ipv4;
    ipv4.hdr.src_addr = rte_cpu_to_be_32(source);
    ipv4_mask.hdr.src_addr = rte_cpu_to_be_32(0xffff00ff);
    auto udp = zeroed<rte_flow_item_udp>(), udp_mask = udp;
    udp.hdr.dst_port = rte_cpu_to_be_16(port);
    udp_mask.hdr.dst_port = 0xffff;
    return Rule()
        .item(RTE_FLOW_ITEM_TYPE_ETH)
        .item(RTE_FLOW_ITEM_TYPE_VOID)
        .item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, &ipv4_mask)
        .item(RTE_FLOW_ITEM_TYPE_UDP, &udp, &udp_mask);
}

class TemplateTest : public FlowTableTest {
  protected:
    using FlowTableTest::FlowTableTest;
    ~TemplateTest() override { table.flush(nullptr); }

    /// One line per device rule.
    std::string dump(const rte_flow* rule) {
        const std::string lines =
            test_text::written([&](FILE* file) { EXPECT_EQ(table.dump(rule, file, &error), 0); });
        return lines.substr(lines.find('\n') + 1);
    }
    void configure(uint32_t size) {
        const rte_flow_port_attr port{};
        const rte_flow_queue_attr queue{size};
        const rte_flow_queue_attr* sizes[] = {&queue, &queue};
        ASSERT_EQ(table.configure(port, sizes, &error), 0) << error.message;
    }
    rte_flow_pattern_template* pattern_of(const Rule& rule) {
        rte_flow_pattern_template_attr attributes{};
        attributes.ingress = 1;
        return table.create_pattern_template(attributes, rule.pattern(), &error);
    }
    rte_flow_actions_template* actions_of(const Rule& rule, const Rule& masks) {
        rte_flow_actions_template_attr attributes{};
        attributes.ingress = 1;
        return table.create_actions_template(attributes, rule.actions(), masks.actions(), &error);
    }
    /// A table of these templates for that many rules.
    rte_flow_template_table* table_of(rte_flow_pattern_template* pattern,
                                      rte_flow_actions_template* actions, uint32_t rules,
                                      uint32_t group = 0) {
        rte_flow_template_table_attr attributes{};
        attributes.flow_attr.group = group;
        attributes.flow_attr.ingress = 1;
        attributes.nb_flows = rules;
        return table.create_template_table(attributes, {&pattern, 1}, {&actions, 1}, &error);
    }
    /// A table whose rules each give queue and mark.
    rte_flow_template_table* marking_table(uint32_t rules) {
        return table_of(pattern_of(flow(0, 0)),
                        actions_of(Rule().queue(1).mark(1), Rule().queue(0).mark(0)), rules);
    }
    rte_flow* enqueue(rte_flow_template_table* of, const Rule& rule, void* user_data = nullptr) {
        return table.async_create(0, of, rule.pattern(), 0, rule.actions(), 0, user_data, &error);
    }
    std::string refused_pattern(const Rule& rule) {
        EXPECT_EQ(pattern_of(rule), nullptr);
        return error.message;
    }
    std::string refused_actions(const Rule& rule, const Rule& masks) {
        EXPECT_EQ(actions_of(rule, masks), nullptr);
        return error.message;
    }
};

} // namespace rawqp::test
