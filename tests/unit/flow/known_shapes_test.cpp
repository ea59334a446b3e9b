// SPDX-License-Identifier: BSD-3-Clause
// Rules of a shape seen before: they are what they would be as the first of that shape.
#include "drivers/net/rawqp/ethdev/flow/known_shapes.hpp"
#include "tests/unit/flow/templates.hpp"

namespace rawqp::test {
namespace {

using testing::HasSubstr;

class KnownShapesTest : public TemplateTest, public testing::WithParamInterface<FlowEngine> {
  protected:
    KnownShapesTest() : TemplateTest(GetParam()) { start(); }

    struct Made {
        std::string text;
        Bytes asked; ///< what the device was asked for
    };
    Made made(const Rule& rule) {
        rte_flow* const handle = create(rule);
        EXPECT_NE(handle, nullptr) << error.message;
        if (handle == nullptr) return {};
        Bytes asked = device.flows.back()->bytes;
        const Bytes& value = device.flows.back()->value; // from mlx5dv
        asked.insert(asked.end(), value.begin(), value.end());
        return {dump(handle), std::move(asked)};
    }
    /// Forgets all shapes.
    void forget() {
        table.flush(&error);
        table.stop();
        start();
    }
    void expect_as_first(const std::vector<Rule>& rules) {
        std::vector<Made> first, later;
        for (const Rule& rule : rules) {
            forget();
            first.push_back(made(rule));
        }
        forget();
        for (const Rule& rule : rules)
            later.push_back(made(rule));
        for (size_t i = 0; i < rules.size(); ++i) {
            EXPECT_EQ(first[i].text, later[i].text);
            EXPECT_EQ(first[i].asked, later[i].asked) << i;
        }
    }
};

TEST_P(KnownShapesTest, AreTheSameRules) {
    std::vector<Rule> rules;
    for (uint32_t n = 0; n < 4; ++n)
        rules.push_back(flow(n, 9).queue(1));
    for (uint32_t n = 0; n < 8; ++n) // bits outside of the mask are not part of a rule
        rules.push_back(flow(0x0a00ff00 + n, static_cast<uint16_t>(4785 + n)).queue(n % 4).mark(n));
    for (uint32_t n = 4; n < 8; ++n)
        rules.push_back(flow(n, 9).action(RTE_FLOW_ACTION_TYPE_DROP));
    expect_as_first(rules);
}

TEST_P(KnownShapesTest, AreManyInTurn) {
    std::vector<Rule> rules;
    for (uint16_t n = 0; n < 60; ++n) { // of 20 shapes
        auto udp = zeroed<rte_flow_item_udp>(), mask = udp;
        udp.hdr.dst_port = rte_cpu_to_be_16(n);
        udp.hdr.src_port = rte_cpu_to_be_16(n);
        mask.hdr.dst_port = 0xffff;
        mask.hdr.src_port = rte_cpu_to_be_16(static_cast<uint16_t>(n % 20 / 2 + 1));
        Rule rule;
        rule.item(RTE_FLOW_ITEM_TYPE_ETH)
            .item(n % 2 == 0 ? RTE_FLOW_ITEM_TYPE_IPV4 : RTE_FLOW_ITEM_TYPE_IPV6)
            .item(RTE_FLOW_ITEM_TYPE_UDP, &udp, &mask)
            .queue(n % 4);
        rules.push_back(rule);
    }
    expect_as_first(rules);
}

/// Otherwise, a port's memory and the time per rule would grow with the number of rules.
TEST(KnownShapes, AreTheLatestFew) {
    KnownShapes shapes;
    const auto seen = [&](uint32_t priority) {
        Rule rule = flow(1, 1).queue(0);
        rule.attr.priority = priority;
        return shapes.find(rule.attr, rule.pattern(), rule.actions())->rules++;
    };
    for (const uint32_t priority : {0, 1, 2, 3, 4, 5, 6, 7})
        EXPECT_EQ(seen(priority), 0u);
    EXPECT_EQ(seen(0), 1u);
    EXPECT_EQ(seen(8), 0u);
    EXPECT_EQ(seen(0), 2u);
    EXPECT_EQ(seen(1), 0u) << "it was the one that was not needed for longest";
}

TEST_P(KnownShapesTest, AreRefusedInTheSameWords) {
    for (uint32_t n = 0; n < 3; ++n)
        ASSERT_NE(create(flow(n, 1).queue(1).mark(n)), nullptr) << error.message;
    EXPECT_THAT(refused(flow(1, 1).queue(2).mark(5)), HasSubstr("same values already"));
    EXPECT_THAT(refused(flow(9, 1).queue(4).mark(5)), HasSubstr("no Rx queue 4"));
    EXPECT_THAT(refused(flow(9, 1).queue(1).mark(1u << 30)), HasSubstr("does not fit"));
    const auto with_conf = [](const void* conf) {
        Rule rule = flow(9, 1).queue(1).mark(5);
        const_cast<rte_flow_action*>(rule.actions())[1].conf = conf;
        return rule;
    };
    EXPECT_THAT(refused(with_conf(nullptr)), HasSubstr("configuration is missing"));
    // A known shape with a value that no such header can have: the IP version.
    const auto version = [](uint8_t number) {
        auto ipv4 = zeroed<rte_flow_item_ipv4>(), mask = ipv4;
        ipv4.hdr.version_ihl = static_cast<uint8_t>(number << 4 | 5);
        mask.hdr.version_ihl = 0xff;
        return Rule()
            .item(RTE_FLOW_ITEM_TYPE_ETH)
            .item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, &mask)
            .queue(1);
    };
    EXPECT_THAT(refused(version(5)), HasSubstr("no such header"));
    EXPECT_THAT(refused(version(5)), HasSubstr("no such header"));
}

/// The device has no room for another one.
TEST_P(KnownShapesTest, FailOnce) {
    for (uint32_t n = 0; n < 3; ++n)
        ASSERT_NE(create(flow(n, 1).queue(1)), nullptr) << error.message;
    device.fail_call(1, ENOMEM);
    EXPECT_EQ(create(flow(3, 1).queue(1)), nullptr);
    EXPECT_THAT(error.message, HasSubstr("cannot create steering rule eth/ipv4/udp"));
    EXPECT_EQ(device.flows.size(), 3u);
    EXPECT_NE(create(flow(3, 1).queue(1)), nullptr) << error.message;
}

INSTANTIATE_TEST_SUITE_P(Engines, KnownShapesTest,
                         testing::Values(FlowEngine::automatic, FlowEngine::mlx5));

using KnownByMlx5Test = KnownShapesTest;

/// mlx5dv flows cannot place multicast among other rules; only the value tells that it is some.
TEST_P(KnownByMlx5Test, MulticastIsRefusedInTheSameWords) {
    const auto to = [](uint8_t first, uint8_t last) {
        auto eth = zeroed<rte_flow_item_eth>(), mask = eth;
        eth.hdr.dst_addr.addr_bytes[0] = first;
        eth.hdr.dst_addr.addr_bytes[5] = last;
        std::memset(mask.hdr.dst_addr.addr_bytes, 0xff, RTE_ETHER_ADDR_LEN);
        return Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask).queue(1);
    };
    for (const uint8_t last : {1, 2, 3})
        ASSERT_NE(create(to(2, last)), nullptr) << error.message;
    EXPECT_THAT(refused(to(3, 1)), HasSubstr("matches multicast"));
}
/// The value determines which header follows.
TEST_P(KnownByMlx5Test, AreReadByTheirValuesWhereTheseDecide) {
    std::vector<Rule> rules;
    for (const uint16_t type : {0x0806, 0x86dd, 0x8100, 0x88a8, 0x0800}) {
        auto eth = zeroed<rte_flow_item_eth>(), mask = eth;
        eth.hdr.ether_type = rte_cpu_to_be_16(type);
        mask.hdr.ether_type = 0xffff;
        rules.push_back(Rule().item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &mask).queue(1));
    }
    expect_as_first(rules);
}

INSTANTIATE_TEST_SUITE_P(Mlx5, KnownByMlx5Test, testing::Values(FlowEngine::mlx5));

/// What was found out for one configuration does not hold for the next: here, that with LRO only
/// the second engine can express the rules.
TEST(KnownShapes, AreForgottenWhenThePortStops) {
    FakeDevice device{2};
    device.offer_mlx5_flows();
    device.offers_devx = true;
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    const std::unique_ptr<Steering> steering = make_steering(device, qps);
    FlowTable table{*steering, device.rx_queues};
    const auto is_by_verbs = [&](uint32_t source) {
        const Rule rule = flow(source, 1).queue(1);
        rte_flow_error error{};
        EXPECT_NE(table.create(&rule.attr, rule.pattern(), rule.actions(), &error), nullptr)
            << error.message;
        return !device.flows.empty() && device.flows.back()->matcher == nullptr;
    };
    steering->use_lro(LroTerms{.period = 1, .units = 1, .tunnels = false});
    ASSERT_TRUE(table.start());
    for (uint32_t source = 0; source < 3; ++source)
        EXPECT_FALSE(is_by_verbs(source));
    table.flush(nullptr);
    table.stop();
    steering->use_lro(std::nullopt);
    ASSERT_TRUE(table.start());
    EXPECT_TRUE(is_by_verbs(3));
    EXPECT_TRUE(is_by_verbs(4));
}

} // namespace
} // namespace rawqp::test
