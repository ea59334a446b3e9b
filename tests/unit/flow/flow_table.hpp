// SPDX-License-Identifier: BSD-3-Clause
// A table of rte_flow rules on a device of the tests.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "tests/unit/flow/fake_device.hpp"
#include "tests/unit/flow/rule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {

inline Rule udp_to(uint16_t port, uint16_t queue) {
    rte_flow_item_udp spec{};
    spec.hdr.dst_port = rte_cpu_to_be_16(port);
    return Rule()
        .item(RTE_FLOW_ITEM_TYPE_ETH)
        .item(RTE_FLOW_ITEM_TYPE_IPV4)
        .item(RTE_FLOW_ITEM_TYPE_UDP, &spec)
        .queue(queue);
}

class FlowTableTest : public testing::Test {
  protected:
    /// `mlx5`: on a device with mlx5dv flows and DevX.
    explicit FlowTableTest(FlowEngine engine = FlowEngine::automatic) : engine_(engine) {}

  private:
    const FlowEngine engine_;
    static FakeDevice& offering(FakeDevice& device, FlowEngine engine) {
        if (engine == FlowEngine::mlx5) {
            device.offer_mlx5_flows();
            device.offers_devx = true;
        }
        return device;
    }

  protected:
    FakeDevice device{4};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    std::unique_ptr<Steering> steering = make_steering(offering(device, engine_), qps, engine_);
    FlowTable table{*steering, device.rx_queues};
    rte_flow_error error{};

    ~FlowTableTest() override {
        table.flush(nullptr);
        EXPECT_EQ(qps.size(), 0u);
        EXPECT_THAT(device.flows, testing::IsEmpty());
        EXPECT_THAT(device.qps, testing::IsEmpty());
        EXPECT_THAT(device.tables, testing::IsEmpty());
        EXPECT_THAT(device.counters, testing::IsEmpty());
        EXPECT_THAT(device.violations, testing::IsEmpty());
    }
    void start() { ASSERT_TRUE(table.start()); }
    rte_flow* create(const Rule& rule) {
        return table.create(&rule.attr, rule.pattern(), rule.actions(), &error);
    }
    int validate(const Rule& rule) {
        return table.validate(&rule.attr, rule.pattern(), rule.actions(), &error);
    }
    /// Validate and create both refuse, with the same text, and leave nothing behind.
    std::string refused(const Rule& rule) {
        const size_t before = device.flows.size();
        const int code = validate(rule);
        EXPECT_LT(code, 0);
        std::string text = error.message;
        error = {};
        EXPECT_EQ(create(rule), nullptr);
        EXPECT_EQ(rte_errno, -code);
        EXPECT_EQ(text, error.message);
        EXPECT_EQ(device.flows.size(), before);
        return text;
    }
};

} // namespace rawqp::test
