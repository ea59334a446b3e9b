// SPDX-License-Identifier: BSD-3-Clause
// A port with rte_flow rules, and where they send frames.
#pragma once

#include "tests/functional/ethdev/port.hpp"

namespace test {

class FlowRules : public PortTest {
  protected:
    void TearDown() override {
        rte_flow_error error{};
        EXPECT_EQ(rte_flow_flush(kPort, &error), 0) << error.message;
        PortTest::TearDown();
    }

    /// Sends what matches to this queue; null if the rule is refused.
    [[nodiscard]] static rte_flow* try_rule(const rte_flow_item* pattern, uint16_t queue,
                                            rte_flow_error& error) {
        const rte_flow_action_queue target{.index = queue};
        return try_rule(pattern, {.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &target}, error);
    }
    [[nodiscard]] static rte_flow* try_rule(const rte_flow_item* pattern,
                                            const rte_flow_action& action, rte_flow_error& error) {
        const rte_flow_action actions[] = {action,
                                           {.type = RTE_FLOW_ACTION_TYPE_END, .conf = nullptr}};
        rte_flow_attr attributes{};
        attributes.ingress = 1;
        return rte_flow_create(kPort, &attributes, pattern, actions, &error);
    }
    /// The same for a rule that must be accepted.
    template <class Action>
    [[nodiscard]] static rte_flow* add_rule(const rte_flow_item* pattern, const Action& action) {
        rte_flow_error error{};
        rte_flow* const rule = try_rule(pattern, action, error);
        EXPECT_NE(rule, nullptr) << error.message;
        return rule;
    }
    /// The queue on which the frame comes back; -1: none.
    [[nodiscard]] static int queue_of(const Frame& content) {
        EXPECT_TRUE(send(mbuf_of(rx_pool(), content)));
        for (unsigned patience = 0; patience < 5000; ++patience)
            for (uint16_t queue = 0; queue < kQueues; ++queue)
                if (rte_mbuf* const packet = receive(queue, 1)) {
                    rte_pktmbuf_free(packet);
                    return queue;
                }
        return -1;
    }
};

} // namespace test
