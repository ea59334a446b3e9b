// SPDX-License-Identifier: BSD-3-Clause
// Splitting a match by traffic class, and how steering priorities are assigned.
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"
#include "tests/unit/flow/fake_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace rawqp::test {
namespace {

using enum TrafficClass;
using testing::ElementsAre;

std::vector<TrafficClass> classes(const Pattern& pattern, uint64_t types) {
    std::vector<TrafficClass> list;
    for (const ClassRule& rule : split_by_class(pattern, types))
        list.push_back(rule.traffic);
    return list;
}

Pattern ether_type(uint16_t type, uint16_t mask = 0xffff) {
    Pattern pattern;
    set_bits(pattern.eth().value, 96, 16, type & mask);
    set_bits(pattern.eth().mask, 96, 16, mask);
    return pattern;
}

Pattern of(std::initializer_list<Protocol> protocols) {
    Pattern pattern;
    for (const Protocol protocol : protocols)
        EXPECT_EQ(pattern.push(protocol), Pattern::Follows::yes);
    return pattern;
}

TEST(Expand, OnlyClassesThatHashDifferently) {
    EXPECT_THAT(classes({}, 0), ElementsAre(other));
    EXPECT_THAT(classes({}, RTE_ETH_RSS_IP), ElementsAre(ipv6, ipv4, other));
    EXPECT_THAT(classes({}, RTE_ETH_RSS_NONFRAG_IPV4_TCP), ElementsAre(ipv4_tcp, other));
    EXPECT_THAT(classes({}, RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP),
                ElementsAre(ipv6_udp, ipv6_tcp, ipv4_udp, ipv4_tcp, ipv6, ipv4, other));
}

TEST(Expand, StaysWithinThePattern) {
    const uint64_t all = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
    EXPECT_THAT(classes(of({Protocol::ipv4}), all), ElementsAre(ipv4_udp, ipv4_tcp, ipv4));
    EXPECT_THAT(classes(of({Protocol::ipv4, Protocol::udp}), all), ElementsAre(ipv4_udp));
    EXPECT_THAT(classes(of({Protocol::ipv4, Protocol::udp, Protocol::vxlan}), all),
                ElementsAre(ipv4_udp));
    EXPECT_THAT(classes(of({Protocol::ipv6, Protocol::gre}), all), ElementsAre(ipv6));
    EXPECT_THAT(classes(of({Protocol::mpls}), all), ElementsAre(other));
}

TEST(Expand, LooksIntoTunnelsWhenAsked) {
    const uint64_t types = RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
    const auto rules =
        split_by_class(of({Protocol::ipv4, Protocol::udp, Protocol::vxlan}), types, 1);
    std::vector<std::string> names;
    names.reserve(rules.size());
    for (const ClassRule& rule : rules)
        names.push_back(rule.pattern.names());
    EXPECT_THAT(names, ElementsAre("eth/ipv4/udp/vxlan/eth/ipv6/udp", "eth/ipv4/udp/vxlan/eth/ipv4",
                                   "eth/ipv4/udp/vxlan"));
    EXPECT_EQ(rules[0].traffic, ipv6_udp);
    EXPECT_EQ(rules[0].pattern.last().depth, 1);
}

/// Some tunnels announce IP or Ethernet, which the pattern leaves open.
TEST(Expand, LooksIntoTunnelsOfIpAndOfEthernet) {
    Pattern open = of({Protocol::ipv4, Protocol::gre}), bridged = open, routed = open;
    bridged.last().set(16, 16, RTE_ETHER_TYPE_TEB);
    routed.last().set(16, 16, RTE_ETHER_TYPE_IPV4);
    const auto first = [](const Pattern& pattern) {
        return split_by_class(pattern, RTE_ETH_RSS_IPV4, 1).front().pattern.text();
    };
    const std::string outer = "eth type 0x800 / ipv4 version 0x4 proto 0x2f / gre";
    EXPECT_EQ(first(open), outer + " / ipv4 version 0x4");
    EXPECT_EQ(first(bridged), outer + " protocol 0x6558 / eth type 0x800 / ipv4 version 0x4");
    EXPECT_EQ(first(routed), outer + " protocol 0x800 / ipv4 version 0x4");
    const Pattern keyed = of({Protocol::ipv4, Protocol::gre, Protocol::gre_key});
    EXPECT_EQ(first(keyed), outer + " k bit 0x1 / gre_key / ipv4 version 0x4");
    const auto udp = split_by_class(of({Protocol::ipv6, Protocol::udp, Protocol::geneve}),
                                    RTE_ETH_RSS_NONFRAG_IPV6_UDP, 1);
    EXPECT_EQ(udp.front().pattern.text(),
              "eth type 0x86dd / ipv6 version 0x6 proto 0x11 / udp dst 0x17c1 / geneve / ipv6 "
              "version 0x6 proto 0x11 / udp");
}

TEST(Expand, SkipsClassesThatThePatternExcludes) {
    const uint64_t all = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
    EXPECT_THAT(classes(ether_type(RTE_ETHER_TYPE_ARP), all), ElementsAre(other));
    EXPECT_THAT(classes(ether_type(RTE_ETHER_TYPE_IPV6), all),
                ElementsAre(ipv6_udp, ipv6_tcp, ipv6, other));
    Pattern pattern = of({Protocol::ipv4});
    pattern.last().set(72, 8, 6); // protocol
    EXPECT_THAT(classes(pattern, all), ElementsAre(ipv4_tcp, ipv4));
}

TEST(Expand, MakesConditionsThatTheHeaderImpliesWhole) {
    for (const ClassRule& rule :
         split_by_class(ether_type(0x0800, 0xff00), RTE_ETH_RSS_NONFRAG_IPV4_TCP)) {
        if (rule.traffic != ipv4_tcp) continue;
        EXPECT_EQ(rule.pattern.text(), "eth type 0x800 / ipv4 version 0x4 proto 0x6 / tcp");
        return;
    }
    FAIL() << "no class for TCP";
}

TEST(Patterns, AreKeptInFewBytes) {
    Pattern pattern = of({Protocol::vlan, Protocol::ipv6, Protocol::udp, Protocol::vxlan,
                          Protocol::eth, Protocol::ipv4, Protocol::tcp});
    pattern.last().set(0, 16, 0x1234);
    pattern.layers()[2].set(kFragment, 1, 0);
    std::vector<uint8_t> bytes(pattern.bytes());
    EXPECT_EQ(pattern.write(bytes.data()), bytes.data() + bytes.size());
    const Pattern same = Pattern::from_bytes(bytes);
    std::vector<uint8_t> again(same.bytes());
    same.write(again.data());
    EXPECT_EQ(again, bytes);
    EXPECT_EQ(same.text(), pattern.text());
    EXPECT_LT(bytes.size(), 350u);
}

TEST(Patterns, LookIntoOneTunnelOnly) {
    Pattern pattern = of({Protocol::ipv4, Protocol::gre, Protocol::gre_key, Protocol::ipv4,
                          Protocol::udp, Protocol::vxlan});
    EXPECT_EQ(pattern.push(Protocol::eth), Pattern::Follows::too_deep);
}

TEST(Patterns, HaveRoomForTwoTagsAndATunnelTwice) {
    using enum Protocol;
    Pattern pattern = of({vlan, second_vlan, ipv4, gre, gre_key});
    for (const Protocol inner : {eth, vlan, second_vlan, ipv4, gre, gre_key})
        EXPECT_EQ(pattern.push(inner), Pattern::Follows::yes) << traits_of(inner).name;
    for (const Protocol kind : {meta, tag, mark, color, sent_meta})
        pattern.metadata(kind).set(0, 8, 1);
    EXPECT_EQ(pattern.layers().size(), Pattern::kMostLayers);
    EXPECT_EQ(pattern.push(ipv4), Pattern::Follows::too_deep);
}

TEST(Levels, FiltersHaveTheirOwn) {
    const SteeringLevels levels{16};
    ASSERT_EQ(levels.flow_levels(), 10);
    std::set<uint16_t> used;
    for (const TrafficClass traffic : {ipv6_udp, ipv6, other})
        for (const unsigned generation : {0, 1}) {
            const uint16_t level = levels.filter_level(traffic, generation);
            EXPECT_TRUE(used.insert(level).second);
            EXPECT_GE(level, levels.flow_levels());
            EXPECT_LT(level, 16);
        }
}

TEST(Levels, EveryDeviceGetsLevelsThatItHas) {
    for (uint16_t count = 1; count <= 16; ++count) {
        const SteeringLevels levels{count};
        ASSERT_GE(levels.flow_levels(), 1u);
        for (const TrafficClass traffic : kTrafficClasses)
            for (const unsigned generation : {0, 1}) {
                EXPECT_LT(levels.filter_level(traffic, generation), count);
                if (count > 1) {
                    EXPECT_GE(levels.filter_level(traffic, generation), levels.flow_levels());
                }
            }
    }
}

class SteeringTest : public testing::Test {
  protected:
    FakeDevice device{2};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    std::unique_ptr<Steering> made = make_steering(device, qps);
    Steering& steering = *made;
};

TEST_F(SteeringTest, FindsTheDevicesPrioritiesOnce) {
    device.priorities = 8;
    ASSERT_EQ(steering.levels()->priorities, 8);
    const unsigned calls = device.calls();
    EXPECT_EQ(steering.levels()->priorities, 8);
    EXPECT_EQ(device.calls(), calls);
    EXPECT_TRUE(device.rules().empty());
    EXPECT_EQ(qps.size(), 0u);
}

TEST_F(SteeringTest, LearnsFromARuleAtTheLastLevel) {
    SteeringRequest request;
    request.target = qps.target({.queues = {0}});
    request.level = SteeringLevels{}.filter_level(other, 0);
    ASSERT_EQ(request.level, SteeringLevels::kMaxPriorities - 1);
    request.pattern.eth().value[0] = request.pattern.eth().mask[0] = 1;
    const auto multicast = steering.install(request);
    ASSERT_TRUE(multicast);
    EXPECT_FALSE(steering.knows_levels()); // devices may treat such a rule separately
    request.pattern = {};
    const auto rule = steering.install(request);
    ASSERT_TRUE(rule);
    EXPECT_TRUE(steering.knows_levels());
    EXPECT_EQ(steering.levels()->priorities, SteeringLevels::kMaxPriorities);
}

TEST_F(SteeringTest, SaysWhyTheDeviceHasNone) {
    device.refuse_flow = [](const verbs_test::Flow&) { return EPERM; };
    const auto levels = steering.levels();
    ASSERT_FALSE(levels);
    EXPECT_EQ(levels.error().code, EPERM);
    EXPECT_NE(levels.error().what.find("CAP_NET_RAW"), std::string::npos) << levels.error().what;
}

TEST_F(SteeringTest, WritesHeadSpecsAndActions) {
    SteeringRequest request;
    request.level = 4;
    request.pattern = of({Protocol::ipv6});
    request.target = qps.target({.queues = {1}});
    request.tag = 0x1234;
    request.drop = true;
    const auto rule = steering.install(request);
    ASSERT_TRUE(rule) << rule.error().what;
    const auto& flow = *device.flows.at(0);
    const ibv_flow_attr attr = flow.attr();
    EXPECT_EQ(attr.type, IBV_FLOW_ATTR_NORMAL);
    EXPECT_EQ(attr.size, flow.bytes.size());
    EXPECT_EQ(attr.priority, 4);
    EXPECT_EQ(attr.port, 1);
    EXPECT_EQ(attr.flags, 0u);
    EXPECT_EQ(attr.num_of_specs, 4); // eth, ipv6, tag, drop
    const Bytes specs = flow.specs();
    constexpr size_t kTagSize = 12;
    EXPECT_EQ(Bytes(specs.begin(), specs.begin() + kTagSize), hex("00100000 0c00 0000 34120000"));
    EXPECT_EQ(Bytes(specs.end() - 8, specs.end()), hex("01100000 0800 0000")); // drop
    EXPECT_EQ(specs.size(), kTagSize + sizeof(ibv_flow_spec_eth) + sizeof(ibv_flow_spec_ipv6) + 8);
}

TEST_F(SteeringTest, MulticastMatchesKeepTheirLevelWhenAsked) {
    // mlx5_ib looks only at the first spec.
    SteeringRequest request;
    request.target = qps.target({.queues = {0}});
    request.pattern.eth().value[0] = request.pattern.eth().mask[0] = 1;
    const auto first_spec = [&] {
        const auto rule = steering.install(request);
        EXPECT_TRUE(rule);
        uint32_t type;
        std::memcpy(&type, &device.flows.at(0)->bytes[sizeof(ibv_flow_attr)], sizeof type);
        return type;
    };
    EXPECT_EQ(first_spec(), uint32_t{IBV_FLOW_SPEC_ETH});
    request.strict_level = true;
    EXPECT_EQ(first_spec(), uint32_t{IBV_FLOW_SPEC_ACTION_TAG});
    request.pattern.eth().value[0] = 0;
    EXPECT_EQ(first_spec(), uint32_t{IBV_FLOW_SPEC_ETH});
}

TEST_F(SteeringTest, DefaultRulesCarryNoSpecs) {
    SteeringRequest request;
    request.type = IBV_FLOW_ATTR_ALL_DEFAULT;
    request.target = qps.target({.queues = {0}});
    const auto rule = steering.install(request);
    ASSERT_TRUE(rule);
    EXPECT_EQ(device.flows.at(0)->attr().num_of_specs, 0);
    EXPECT_EQ(device.flows.at(0)->bytes.size(), sizeof(ibv_flow_attr));
}

} // namespace
} // namespace rawqp::test
