// SPDX-License-Identifier: BSD-3-Clause
// How rules are requested from a device, by verbs and by mlx5dv, and which engine does it.
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "drivers/net/rawqp/ethdev/steering/mlx5_words.hpp"
#include "tests/unit/flow/rule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace rawqp::test {
namespace {

using testing::AnyOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

/// What an engine cannot express in a pattern; empty: nothing.
std::string lack_of(const Engine& engine, const Pattern& pattern) {
    SteeringRequest request;
    request.pattern = pattern;
    const std::optional<Lack> lack = engine.lack(request);
    return lack ? lack->what() : "";
}

/// Both engines, on a device that is never called.
struct Engines {
    FakeDevice device{1};
    std::unique_ptr<Engine> verbs = make_verbs_engine(1), mlx5;
    Devx devx{device.api(), device.context()};
    GroupWay way = GroupWay::commands;
    Engines() {
        device.offer_mlx5_flows();
        mlx5 = make_mlx5_engine(device.api(), device.context(), devx, device.rx_queues, way);
    }
};

/// What a device is asked for: value and mask in the engine's format.
Bytes words(const Engine& engine, const Pattern& pattern) {
    if (engine.name() == std::string("verbs")) return verbs_specs(pattern);
    const Mlx5Match match = mlx5_match(pattern);
    Bytes bytes(match.mask.begin(), match.mask.end());
    bytes.insert(bytes.end(), match.value.begin(), match.value.end());
    return bytes;
}

/// Every bit of an item's mask either reaches the device or is refused by name: none is lost.
template <class Item>
void every_mask_bit(rte_flow_item_type type, const std::vector<rte_flow_item_type>& below = {}) {
    const Engines engines;
    const auto ones = all_ones<Item>();
    const auto translate = [&](const Item& mask) {
        Rule rule;
        for (const auto lower : below)
            rule.item(lower);
        rule.item(type, &ones, &mask);
        return translate_pattern(rule.pattern());
    };
    const auto reference = translate(zeroed<Item>()).value();
    for (size_t bit = 0; bit < 8 * sizeof(Item); ++bit) {
        // Next to the two bit fields of the item.
        const bool padding =
            type == RTE_FLOW_ITEM_TYPE_ETH && ((bit > 14 * 8 && bit < 16 * 8) || bit == 20 * 8 - 1);
        if (padding) continue;
        auto mask = zeroed<Item>();
        reinterpret_cast<uint8_t*>(&mask)[bit / 8] = static_cast<uint8_t>(1 << bit % 8);
        const auto patterns = translate(mask);
        if (!patterns) {
            EXPECT_THAT(patterns.error().what,
                        AnyOf(HasSubstr("has this value in field"),
                              ContainsRegex("item ipv6: field (has_[a-z0-9]+_ext|reserved) cannot "
                                            "be matched")));
            continue;
        }
        const std::string text = patterns->front().text();
        if (text == reference[0].text()) { // implied by the item anyway
            EXPECT_THAT(type, AnyOf(RTE_FLOW_ITEM_TYPE_IPV4, RTE_FLOW_ITEM_TYPE_IPV6,
                                    RTE_FLOW_ITEM_TYPE_NVGRE));
            continue;
        }
        for (const Engine* engine : {engines.verbs.get(), engines.mlx5.get()}) {
            if (const std::string why = lack_of(*engine, patterns->front()); !why.empty()) {
                EXPECT_THAT(why, HasSubstr("cannot be matched"));
            } else {
                EXPECT_NE(words(*engine, patterns->front()), words(*engine, reference[0]))
                    << engine->name() << ": mask bit " << bit << " had no effect: " << text;
            }
        }
    }
}

TEST(Engines, NoMaskBitIsLostSilently) {
    constexpr auto kIpv4 = RTE_FLOW_ITEM_TYPE_IPV4, kUdp = RTE_FLOW_ITEM_TYPE_UDP,
                   kGre = RTE_FLOW_ITEM_TYPE_GRE, kVlan = RTE_FLOW_ITEM_TYPE_VLAN;
    every_mask_bit<rte_flow_item_eth>(RTE_FLOW_ITEM_TYPE_ETH);
    every_mask_bit<rte_flow_item_vlan>(kVlan);
    every_mask_bit<rte_flow_item_vlan>(kVlan, {kVlan});
    every_mask_bit<rte_flow_item_ipv4>(kIpv4);
    every_mask_bit<rte_flow_item_ipv6>(RTE_FLOW_ITEM_TYPE_IPV6);
    every_mask_bit<rte_flow_item_tcp>(RTE_FLOW_ITEM_TYPE_TCP, {kIpv4});
    every_mask_bit<rte_flow_item_udp>(kUdp, {RTE_FLOW_ITEM_TYPE_IPV6});
    every_mask_bit<rte_flow_item_icmp>(RTE_FLOW_ITEM_TYPE_ICMP, {kIpv4});
    every_mask_bit<rte_flow_item_icmp6>(RTE_FLOW_ITEM_TYPE_ICMP6, {RTE_FLOW_ITEM_TYPE_IPV6});
    every_mask_bit<rte_flow_item_igmp>(RTE_FLOW_ITEM_TYPE_IGMP, {kIpv4});
    every_mask_bit<rte_flow_item_esp>(RTE_FLOW_ITEM_TYPE_ESP, {kIpv4});
    every_mask_bit<rte_flow_item_ah>(RTE_FLOW_ITEM_TYPE_AH, {kIpv4});
    every_mask_bit<rte_flow_item_gre>(kGre, {kIpv4});
    every_mask_bit<rte_be32_t>(RTE_FLOW_ITEM_TYPE_GRE_KEY, {kIpv4, kGre});
    every_mask_bit<rte_flow_item_nvgre>(RTE_FLOW_ITEM_TYPE_NVGRE, {kIpv4});
    every_mask_bit<rte_flow_item_vxlan>(RTE_FLOW_ITEM_TYPE_VXLAN, {kIpv4, kUdp});
    every_mask_bit<rte_flow_item_vxlan_gpe>(RTE_FLOW_ITEM_TYPE_VXLAN_GPE, {kIpv4, kUdp});
    every_mask_bit<rte_flow_item_geneve>(RTE_FLOW_ITEM_TYPE_GENEVE, {kIpv4, kUdp});
    every_mask_bit<rte_flow_item_gtp>(RTE_FLOW_ITEM_TYPE_GTP, {kIpv4, kUdp});
    every_mask_bit<rte_flow_item_mpls>(RTE_FLOW_ITEM_TYPE_MPLS, {});
    every_mask_bit<rte_flow_item_mpls>(RTE_FLOW_ITEM_TYPE_MPLS, {kIpv4, kGre});
    every_mask_bit<rte_flow_item_ipv4>(kIpv4, {kIpv4, kUdp, RTE_FLOW_ITEM_TYPE_VXLAN});
}

TEST(Engines, NameTheFieldThatTheyHaveNoPlaceFor) {
    const Engines engines;
    const auto mask = all_ones<rte_flow_item_tcp>();
    const auto spec = zeroed<rte_flow_item_tcp>();
    const auto patterns = translate_pattern(Rule()
                                                .item(RTE_FLOW_ITEM_TYPE_IPV4)
                                                .item(RTE_FLOW_ITEM_TYPE_TCP, &spec, &mask)
                                                .pattern())
                              .value();
    EXPECT_THAT(lack_of(*engines.verbs, patterns[0]),
                StartsWith("field sent_seq cannot be matched"));
    EXPECT_THAT(lack_of(*engines.mlx5, patterns[0]),
                StartsWith("field data_off cannot be matched"));
}

/// mlx5_ib would match its SPI in the outer header.
TEST(Engines, VerbsHasNoEspInATunnel) {
    const Engines engines;
    const auto spi = all_ones<rte_flow_item_esp>();
    auto mask = zeroed<rte_flow_item_esp>();
    mask.hdr.spi = spi.hdr.spi;
    const auto patterns = translate_pattern(Rule()
                                                .item(RTE_FLOW_ITEM_TYPE_IPV4)
                                                .item(RTE_FLOW_ITEM_TYPE_GRE)
                                                .item(RTE_FLOW_ITEM_TYPE_IPV4)
                                                .item(RTE_FLOW_ITEM_TYPE_ESP, &spi, &mask)
                                                .pattern())
                              .value();
    EXPECT_THAT(lack_of(*engines.verbs, patterns[0]), StartsWith("cannot be matched inside"));
    EXPECT_EQ(lack_of(*engines.mlx5, patterns[0]), "");
}

/// A match can hold the fields of one tunnel only.
TEST(Engines, VerbsHasNoTunnelInATunnel) {
    const Engines engines;
    const auto in_vxlan = [&](rte_flow_item_type type) {
        const bool by_udp = type == RTE_FLOW_ITEM_TYPE_VXLAN;
        Rule rule = Rule()
                        .item(RTE_FLOW_ITEM_TYPE_IPV4)
                        .item(RTE_FLOW_ITEM_TYPE_UDP)
                        .item(RTE_FLOW_ITEM_TYPE_VXLAN)
                        .item(RTE_FLOW_ITEM_TYPE_ETH);
        if (type != RTE_FLOW_ITEM_TYPE_MPLS) rule.item(RTE_FLOW_ITEM_TYPE_IPV4);
        if (by_udp) rule.item(RTE_FLOW_ITEM_TYPE_UDP);
        return translate_pattern(rule.item(type).pattern()).value()[0];
    };
    for (const auto type : {RTE_FLOW_ITEM_TYPE_VXLAN, RTE_FLOW_ITEM_TYPE_GRE}) {
        EXPECT_THAT(lack_of(*engines.verbs, in_vxlan(type)),
                    StartsWith("cannot be matched inside"));
        EXPECT_EQ(lack_of(*engines.mlx5, in_vxlan(type)), "");
    }
    EXPECT_EQ(lack_of(*engines.verbs, in_vxlan(RTE_FLOW_ITEM_TYPE_MPLS)), "");
}

TEST(Engines, Mlx5WritesWhatThePrmSays) {
    auto eth = zeroed<rte_flow_item_eth>(), eth_mask = eth;
    eth_mask.has_vlan = 1;
    auto ipv4 = zeroed<rte_flow_item_ipv4>(), ipv4_mask = ipv4;
    ipv4.hdr.time_to_live = 64;
    ipv4_mask.hdr.time_to_live = 0xff;
    auto vxlan = zeroed<rte_flow_item_vxlan>();
    std::memset(static_cast<void*>(&vxlan.hdr), 0x5a, sizeof vxlan.hdr);
    const Rule rule = Rule()
                          .item(RTE_FLOW_ITEM_TYPE_ETH, &eth, &eth_mask)
                          .item(RTE_FLOW_ITEM_TYPE_IPV4, &ipv4, &ipv4_mask)
                          .item(RTE_FLOW_ITEM_TYPE_UDP)
                          .item(RTE_FLOW_ITEM_TYPE_VXLAN, &vxlan)
                          .item(RTE_FLOW_ITEM_TYPE_IPV4);
    const Mlx5Match match = mlx5_match(translate_pattern(rule.pattern()).value()[0]);
    EXPECT_EQ(match.criteria, 7); // outer, misc, inner
    const auto bits = [&](const auto& bytes, size_t bit, size_t count) {
        return get_bits(bytes, bit, count);
    };
    EXPECT_EQ(bits(match.mask, 0x90, 7), 0b1101111u); // cvlan, svlan, IP version
    EXPECT_EQ(bits(match.value, 0x90, 7), 4u);
    EXPECT_EQ(bits(match.value, 0x30, 16), 0x0800u);
    EXPECT_EQ(bits(match.value, 0x80, 8), 17u);
    EXPECT_EQ(bits(match.value, 0xd8, 8), 64u);
    EXPECT_EQ(bits(match.value, 0xf0, 16), 4789u);
    EXPECT_EQ(bits(match.value, 512 + 0xa0, 24), 0x5a5a5au);
    EXPECT_EQ(bits(match.mask, 512 + 0xa0, 24), 0xffffffu);
    EXPECT_EQ(bits(match.value, 1024 + 0x30, 16), 0x0800u);
    EXPECT_EQ(bits(match.mask, 1024 + 0x93, 4), 15u);
}

/// A pattern with random masks and values; few of the former, so that they come again.
Pattern random_pattern(std::minstd_rand& random) {
    Pattern pattern;
    const bool tunnel = random() % 2 == 0;
    std::vector<Protocol> headers{random() % 2 == 0 ? Protocol::ipv4 : Protocol::ipv6,
                                  Protocol::udp};
    if (tunnel) headers.insert(headers.end(), {Protocol::vxlan, Protocol::eth, Protocol::ipv4});
    for (const Protocol header : headers)
        EXPECT_EQ(pattern.push(header), Pattern::Follows::yes);
    for (Layer& layer : pattern.layers())
        for (const Field& field : fields_of(layer.protocol))
            if (layer.allows(field.bit, field.bits, 0) && random() % 8 == 0)
                layer.set(field.bit, std::min<uint16_t>(field.bits, 32), random());
    return pattern;
}

TEST(Engine, RemembersNoMaskForTooLongAndNoValueAtAll) {
    std::minstd_rand random(2); // NOLINT(cert-msc51-cpp): the same each time
    std::vector<Pattern> patterns;
    for (int i = 0; i < 20; ++i)
        patterns.push_back(random_pattern(random));
    MatchMaker maker;
    for (int i = 0; i < 2000; ++i) {
        Pattern& pattern = patterns[random() % patterns.size()];
        for (int repeat = 0; repeat < 2; ++repeat) {
            const Mlx5Match made = maker.of(pattern), fresh = mlx5_match(pattern);
            ASSERT_EQ(made.mask, fresh.mask) << pattern.text();
            ASSERT_EQ(made.value, fresh.value) << pattern.text();
            ASSERT_EQ(made.criteria, fresh.criteria) << pattern.text();
            for (Layer& layer : pattern.layers()) // another rule with this mask
                for (size_t at = 0; at < layer.value.size(); ++at)
                    layer.value[at] = static_cast<uint8_t>(random()) & layer.mask[at];
        }
    }
}

/// Steering on a device that has both engines.
class BothEnginesTest : public testing::Test {
  protected:
    FakeDevice device{2};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    std::unique_ptr<Steering> steering;
    SteeringRequest request;

    BothEnginesTest() {
        device.offer_mlx5_flows();
        steering = make_steering(device, qps);
        request.target = qps.target({.queues = {1}});
        request.strict_level = true;
    }
    ~BothEnginesTest() override { EXPECT_THAT(device.violations, IsEmpty()); }
};

TEST_F(BothEnginesTest, VerbsAsksForWhatItHasWordsFor) {
    const auto rule = steering->install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    EXPECT_EQ(device.flows[0]->matcher, nullptr);
    EXPECT_STREQ(rule->engine->name(), "verbs");
}

TEST_F(BothEnginesTest, Mlx5AsksForTheRest) {
    request.pattern.eth().set(kTagged, 1, 0);
    request.level = 5;
    request.tag = 77;
    const auto rule = steering->install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    const verbs_test::Flow& flow = *device.flows[0];
    ASSERT_NE(flow.matcher, nullptr);
    EXPECT_EQ(flow.level(), 5);
    EXPECT_EQ(flow.matcher->criteria, 1);
    EXPECT_EQ(get_bits(flow.matcher->mask, 0x90, 2), 3u);
    ASSERT_THAT(flow.actions, SizeIs(2));
    EXPECT_EQ(flow.qp->queues, std::vector<uint16_t>{1});
    EXPECT_EQ(flow.actions[1].type, MLX5DV_FLOW_ACTION_TAG);
    EXPECT_EQ(flow.actions[1].tag_value, 77u);
}

TEST_F(BothEnginesTest, AnEngineThatWasFoundIsNotLookedForAgain) {
    SteeringRequest other = request;
    other.pattern.eth().set(kTagged, 1, 0);
    request.engine = steering->engine_for(other).value();
    const auto rule = steering->install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    EXPECT_STREQ(rule->engine->name(), "mlx5"); // although verbs can express this one
}

TEST_F(BothEnginesTest, Mlx5AsksWhenTheDeviceRefusesVerbs) {
    device.refuse_flow = [](const verbs_test::Flow&) { return EOPNOTSUPP; };
    request.drop = true;
    const auto rule = steering->install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    ASSERT_THAT(device.flows[0]->actions, SizeIs(1));
    EXPECT_EQ(device.flows[0]->actions[0].type, MLX5DV_FLOW_ACTION_DROP);
    device.refuse_flow = [](const verbs_test::Flow&) { return ENOMEM; }; // another reason
    EXPECT_EQ(steering->install(request).error().code, ENOMEM);
    device.refuse_flow = nullptr;
}

TEST_F(BothEnginesTest, RulesOfOneMaskShareAMatcher) {
    request.pattern.eth().set(kTagged, 1, 0);
    std::vector<SteeringRule> rules;
    for (const uint16_t type : {1, 2, 3}) {
        request.pattern.eth().set(96, 16, type);
        rules.push_back(std::move(*steering->install(request)));
    }
    EXPECT_THAT(device.matchers, SizeIs(1));
    ++request.level;
    rules.push_back(std::move(*steering->install(request)));
    EXPECT_THAT(device.matchers, SizeIs(2));
    rules.clear();
    EXPECT_THAT(device.matchers, IsEmpty());
    EXPECT_THAT(device.flows, IsEmpty());
}

TEST_F(BothEnginesTest, AFailureLeavesNothing) {
    request.pattern.eth().set(kTagged, 1, 0);
    const int failures = install_through_failures(device, *steering, request, [&] {
        EXPECT_THAT(device.matchers, IsEmpty());
        EXPECT_EQ(qps.size(), 0u);
    });
    EXPECT_EQ(failures, 4); // table, QP, matcher, flow
}

TEST_F(BothEnginesTest, WhatNoEngineHasWordsForIsSaidOnce) {
    request.pattern.eth().set(kTagged, 1, 0);
    EXPECT_TRUE(steering->engine_for(request));
    request.counter = steering->make_counter();
    EXPECT_EQ(steering->engine_for(request).error().what,
              "field has_vlan cannot be matched: verbs flow specs have no place for it: clear "
              "its mask; by mlx5: action count: mlx5dv flows have counters by DevX only, which "
              "the kernel does not give to this process");
    request.counter = nullptr;
    request.pattern.eth().value[0] = request.pattern.eth().mask[0] = 1;
    EXPECT_THAT(steering->engine_for(request).error().what, HasSubstr("multicast"));
    request.strict_level = false;
    EXPECT_TRUE(steering->engine_for(request));
}

TEST_F(BothEnginesTest, ACounterHasAnObjectOfEachEngineThatItCountsFor) {
    device.offers_counters = device.offers_devx = true;
    request.counter = steering->make_counter();
    const auto by_verbs = steering->install(request);
    ASSERT_TRUE(by_verbs);
    ASSERT_THAT(device.counters, SizeIs(1));
    EXPECT_THAT(device.devx_objects, IsEmpty());
    request.pattern.eth().set(kTagged, 1, 0);
    ASSERT_TRUE(steering->engine_for(request));
    const auto by_mlx5 = steering->install(request);
    ASSERT_TRUE(by_mlx5);
    ASSERT_THAT(device.devx_objects, SizeIs(1));
    EXPECT_EQ(device.devx_objects[0]->opcode(), 0x939);
    EXPECT_TRUE(std::ranges::any_of(device.flows[1]->actions, [&](const auto& action) {
        return action.type == MLX5DV_FLOW_ACTION_COUNTERS_DEVX &&
               verbs_test::DevxObject::of(action.obj) == device.devx_objects[0].get();
    }));

    device.counters[0]->packets = 3;
    device.counters[0]->bytes = 300;
    device.devx_answer = hex("0000000000000000 0000000000000004 0000000000000190");
    const auto counts = request.counter->read();
    ASSERT_TRUE(counts);
    EXPECT_EQ(counts->packets, 7u);
    EXPECT_EQ(counts->bytes, 700u);
    request.counter->reset(*counts);
    device.counters[0]->packets = 5;
    EXPECT_EQ(request.counter->read()->packets, 2u);
    device.fail_next("devx_obj_query", EIO);
    EXPECT_FALSE(request.counter->read());
}

TEST_F(BothEnginesTest, OneCanBeChosen) {
    const auto verbs = make_steering(device, qps, FlowEngine::verbs);
    request.pattern.eth().set(kTagged, 1, 0);
    EXPECT_FALSE(verbs->engine_for(request));
    request.pattern = {};
    const auto mlx5 = make_steering(device, qps, FlowEngine::mlx5);
    const auto rule = mlx5->install(request);
    ASSERT_TRUE(rule);
    EXPECT_NE(device.flows[0]->matcher, nullptr);
    FakeDevice other{1};
    const auto none = Steering::make(other.api(), qps, 1, FlowEngine::mlx5);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().what, HasSubstr("use flow_engine=auto"));
}

} // namespace
} // namespace rawqp::test
