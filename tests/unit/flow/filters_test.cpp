// SPDX-License-Identifier: BSD-3-Clause
// The port's own receive rules, evaluated as a device would.
#include "drivers/net/rawqp/ethdev/steering/filters.hpp"
#include "tests/unit/flow/allocations.hpp"
#include "tests/unit/flow/fake_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rawqp::test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr rte_ether_addr kOwn{{0x02, 0, 0, 0, 0, 0x01}};
constexpr rte_ether_addr kSecond{{0x02, 0, 0, 0, 0, 0x02}};
constexpr rte_ether_addr kStranger{{0x02, 0, 0, 0, 0, 0x99}};
constexpr rte_ether_addr kGroup{{0x01, 0, 0x5e, 0, 0, 0x05}};
constexpr rte_ether_addr kOtherGroup{{0x33, 0x33, 0, 0, 0, 0x01}};
constexpr rte_ether_addr kBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

struct Frame {
    rte_ether_addr destination = kOwn;
    uint16_t type = RTE_ETHER_TYPE_ARP;
    uint8_t proto = 0;
    uint16_t vlan = 0; ///< 0: no tag
    rte_ether_addr source = kSecond;
};
constexpr uint8_t kTcp = 6, kUdp = 17;

bool matches(const verbs_test::Flow& flow, const Frame& frame) {
    const auto eth = flow.spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
    if (!eth) return true; // a default rule
    for (size_t i = 0; i < 6; ++i)
        if (((eth->val.dst_mac[i] ^ frame.destination.addr_bytes[i]) & eth->mask.dst_mac[i]) |
            ((eth->val.src_mac[i] ^ frame.source.addr_bytes[i]) & eth->mask.src_mac[i]))
            return false;
    if (eth->mask.vlan_tag &&
        (frame.vlan == 0 || ((rte_be_to_cpu_16(eth->val.vlan_tag) ^ frame.vlan) & 0xfff)))
        return false;
    const auto has = [&](uint32_t type) { return flow.find(type) != 0; };
    if (has(IBV_FLOW_SPEC_IPV4_EXT) && frame.type != RTE_ETHER_TYPE_IPV4) return false;
    if (has(IBV_FLOW_SPEC_IPV6) && frame.type != RTE_ETHER_TYPE_IPV6) return false;
    return !(has(IBV_FLOW_SPEC_TCP) && frame.proto != kTcp) &&
           !(has(IBV_FLOW_SPEC_UDP) && frame.proto != kUdp);
}

bool is_for_groups(const verbs_test::Flow& flow) {
    const auto eth = flow.spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
    return eth && (eth->val.dst_mac[0] & eth->mask.dst_mac[0] & 1);
}

/// What a rule compares, without the values.
std::vector<uint8_t> kind_of(const verbs_test::Flow& flow) {
    const auto eth = flow.spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH).value();
    std::vector<uint8_t> kind(sizeof eth.mask);
    std::memcpy(kind.data(), &eth.mask, kind.size());
    for (const uint32_t type :
         {IBV_FLOW_SPEC_IPV4_EXT, IBV_FLOW_SPEC_IPV6, IBV_FLOW_SPEC_TCP, IBV_FLOW_SPEC_UDP})
        kind.push_back(flow.find(type) != 0);
    return kind;
}

class FiltersTest : public testing::Test {
  protected:
    FakeDevice device{4};
    RssQps qps{device.api(), device.context(), device.pd(), device.rx_queues};
    std::unique_ptr<Steering> steering = make_steering(device, qps);
    Filters filters{*steering};
    FilterState state;

    FiltersTest() {
        state.macs = {kOwn};
        state.reta = {0, 1, 2, 3};
        state.rss_types = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP;
    }
    ~FiltersTest() override { EXPECT_THAT(device.violations, IsEmpty()); }

    void apply() {
        const auto done = filters.apply(state);
        ASSERT_TRUE(done) << done.error().what;
    }

    /// As the kernel's mlx5 driver does: those for groups come last, whatever their level, in the
    /// order in which their kinds of match appeared.
    bool groups_by_age = false;

    /// Of two rules the device tries the one with the lower rank first.
    size_t rank(const verbs_test::Flow& flow) const {
        if (!groups_by_age || !is_for_groups(flow)) return flow.level();
        const auto rules = device.rules();
        const auto oldest = std::ranges::find_if(rules, [&](const auto* rule) {
            return is_for_groups(*rule) && kind_of(*rule) == kind_of(flow);
        });
        return UINT16_MAX + static_cast<size_t>(oldest - rules.begin());
    }
    /// The rules that would take the frame: those of the first rank with a match, one per
    /// destination.
    std::vector<const verbs_test::Flow*> takers(const Frame& frame) const {
        std::vector<const verbs_test::Flow*> best;
        for (const auto* flow : device.rules()) {
            if (!matches(*flow, frame)) continue;
            if (!best.empty() && rank(*flow) < rank(*best.front())) best.clear();
            if (best.empty() ||
                (rank(*flow) == rank(*best.front()) && flow->qp != best.front()->qp))
                best.push_back(flow);
        }
        return best;
    }
    /// How many copies of the frame would be delivered: rules of one level with equal matches get
    /// one each; of those with different matches the device follows one.
    size_t copies(const Frame& frame) const {
        const auto list = takers(frame);
        return static_cast<size_t>(std::count_if(list.begin(), list.end(), [&](const auto* flow) {
            return flow->specs() == list.front()->specs();
        }));
    }
    bool received(const Frame& frame) const { return !takers(frame).empty(); }
    uint64_t hash_of(const Frame& frame) const {
        const auto list = takers(frame);
        EXPECT_THAT(list, SizeIs(1));
        return list.empty() ? 0 : list.front()->qp->hash_fields;
    }
};

TEST_F(FiltersTest, LetsInOwnAddressAndBroadcastOnly) {
    apply();
    EXPECT_TRUE(received({kOwn}));
    EXPECT_TRUE(received({kBroadcast}));
    EXPECT_FALSE(received({kSecond}));
    EXPECT_FALSE(received({kStranger}));
    EXPECT_FALSE(received({kGroup}));
}

TEST_F(FiltersTest, FollowsEverySwitch) {
    state.macs.push_back(kSecond);
    state.multicast = {kGroup};
    apply();
    EXPECT_TRUE(received({kSecond}));
    EXPECT_TRUE(received({kGroup}));
    EXPECT_FALSE(received({kOtherGroup}));

    state.all_multicast = true;
    apply();
    EXPECT_TRUE(received({kOtherGroup}));
    EXPECT_FALSE(received({kStranger}));

    state.promiscuous = true;
    apply();
    EXPECT_TRUE(received({kStranger}));

    state.promiscuous = state.all_multicast = false;
    state.macs = {kOwn};
    state.multicast.clear();
    apply();
    EXPECT_TRUE(received({kOwn}));
    EXPECT_FALSE(received({kStranger}));
    EXPECT_FALSE(received({kSecond}));
    EXPECT_FALSE(received({kGroup}));
}

TEST_F(FiltersTest, EachPacketMeetsTheHashOfItsClass) {
    state.promiscuous = true; // rules overlap, but the class must still decide
    apply();
    const uint64_t ip4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4;
    const uint64_t ip6 = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
    const uint64_t tcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
    for (const rte_ether_addr& to : {kOwn, kBroadcast, kStranger}) {
        EXPECT_EQ(hash_of({to, RTE_ETHER_TYPE_ARP}), 0u);
        EXPECT_EQ(hash_of({to, RTE_ETHER_TYPE_IPV4, kTcp}), ip4 | tcp);
        EXPECT_EQ(hash_of({to, RTE_ETHER_TYPE_IPV4, kUdp}), ip4);
        EXPECT_EQ(hash_of({to, RTE_ETHER_TYPE_IPV4, 1}), ip4);
        EXPECT_EQ(hash_of({to, RTE_ETHER_TYPE_IPV6, kTcp}), ip6 | tcp);
        EXPECT_EQ(hash_of({to, RTE_ETHER_TYPE_IPV6, kUdp}), ip6);
    }
}

TEST_F(FiltersTest, WithoutRssEverythingGoesToTheFirstEntry) {
    state.rss_types = 0;
    state.reta = {2, 1, 0, 3};
    apply();
    for (const auto* flow : device.rules())
        EXPECT_EQ(flow->qp->queues, std::vector<uint16_t>{2});
    EXPECT_THAT(device.qps, SizeIs(1));
}

TEST_F(FiltersTest, MasksTheGroupBit) {
    state.all_multicast = true;
    state.rss_types = 0;
    apply();
    const auto list = takers({kGroup});
    ASSERT_THAT(list, SizeIs(1));
    const auto eth = list.front()->spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
    EXPECT_EQ(Bytes(eth->val.dst_mac, eth->val.dst_mac + 6), hex("010000000000"));
    EXPECT_EQ(Bytes(eth->mask.dst_mac, eth->mask.dst_mac + 6), hex("010000000000"));
}

TEST_F(FiltersTest, VlanFilterLetsListedTagsIn) {
    state.vlans = {5, 70};
    state.promiscuous = false;
    apply();
    EXPECT_TRUE(received({kOwn, RTE_ETHER_TYPE_IPV4, kTcp, 5}));
    EXPECT_TRUE(received({kBroadcast, RTE_ETHER_TYPE_ARP, 0, 70}));
    EXPECT_FALSE(received({kOwn, RTE_ETHER_TYPE_IPV4, kTcp, 6}));
    EXPECT_FALSE(received({kOwn, RTE_ETHER_TYPE_IPV4, kTcp, 0}));
    state.promiscuous = true; // accepts everything, as net_mlx5 does
    apply();
    EXPECT_TRUE(received({kOwn, RTE_ETHER_TYPE_IPV4, kTcp, 6}));
    EXPECT_TRUE(received({kStranger, RTE_ETHER_TYPE_IPV4, kTcp, 0}));
}

TEST_F(FiltersTest, VlansComeAndGoWhileOthersStay) {
    const auto in = [&](uint16_t vlan, const rte_ether_addr& mac = kOwn) {
        return received({mac, RTE_ETHER_TYPE_IPV4, kTcp, vlan});
    };
    const auto list = [&](std::vector<uint16_t> vlans) {
        state.vlans = std::move(vlans);
        apply();
    };
    list({5, 70});
    list({70, 6}); // one is removed, another one added
    EXPECT_TRUE(!in(5) && in(6) && in(70));
    state.promiscuous = true;
    apply();
    list({70});
    EXPECT_TRUE(in(6) && in(70, kStranger)) << "promiscuous";
    state.promiscuous = false;
    state.macs.push_back(kSecond);
    list({70, 8}); // a MAC is added as well
    EXPECT_TRUE(in(8) && in(8, kSecond) && in(70, kSecond) && !in(6));
    device.fail_call(3, ENOMEM);
    state.vlans = {8, 9};
    EXPECT_FALSE(filters.apply(state));
    EXPECT_TRUE(in(8) && in(70) && !in(9)) << "as it was";
    list({8, 9});
    EXPECT_TRUE(in(8) && in(9, kSecond) && !in(70));
    list({});
    EXPECT_TRUE(in(0) && in(4000));
}

/// Measured by allocations, which do not depend on how busy the machine is.
TEST_F(FiltersTest, AVlanCostsTheSameAmongMany) {
    const auto cost_among = [&](uint16_t count) {
        for (uint16_t vlan = 1; vlan <= count; ++vlan)
            state.vlans.push_back(vlan);
        apply();
        state.vlans.push_back(4000);
        const size_t before = allocations();
        apply();
        const size_t cost = allocations() - before;
        state.vlans.clear();
        apply();
        return cost;
    };
    const size_t few = cost_among(2), many = cost_among(300);
    EXPECT_LT(many, few + few / 4);
}

TEST_F(FiltersTest, KeepsRulesThatStayAndIsIdempotent) {
    apply();
    const auto before = device.rules();
    const unsigned calls = device.calls();
    apply();
    EXPECT_EQ(device.calls(), calls);
    state.macs.push_back(kSecond);
    apply();
    const auto after = device.rules();
    for (const auto* rule : before)
        EXPECT_THAT(after, testing::Contains(rule));
}

/// With levels for groups or without.
class FilterChangesTest : public FiltersTest, public testing::WithParamInterface<bool> {
  protected:
    FilterChangesTest() { groups_by_age = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(GroupsByAge, FilterChangesTest, testing::Bool());

TEST_P(FilterChangesTest, LoseNothingAndDeliverNothingTwice) {
    apply();
    const std::vector<Frame> traffic{{kOwn, RTE_ETHER_TYPE_ARP},
                                     {kOwn, RTE_ETHER_TYPE_IPV4, kTcp},
                                     {kOwn, RTE_ETHER_TYPE_IPV6, kUdp},
                                     {kBroadcast, RTE_ETHER_TYPE_ARP},
                                     {kBroadcast, RTE_ETHER_TYPE_IPV4, kUdp},
                                     {.destination = kBroadcast,
                                      .type = RTE_ETHER_TYPE_IPV4,
                                      .proto = kUdp,
                                      .source = kStranger}};
    int looks = 0;
    device.on_change = [&] {
        ++looks;
        for (const Frame& frame : traffic)
            EXPECT_EQ(copies(frame), 1u);
    };
    const auto change = [&](auto&& edit) {
        edit();
        apply();
    };
    change([&] { state.reta = {3, 2, 1, 0}; });
    change([&] { state.key[0] ^= 1; });
    change([&] { state.reta = {0, 0, 1, 1}; });
    change([&] { state.rss_types = RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP; });
    change([&] { state.promiscuous = true; });
    change([&] { state.rss_types = 0; });
    change([&] { state.promiscuous = false; });
    change([&] { state.rss_types = RTE_ETH_RSS_TCP; });
    change([&] { state.all_multicast = true; });
    change([&] { state.multicast = {kGroup}; });
    change([&] { state.reta = {1, 1, 0, 0}; });
    change([&] { state.all_multicast = false; });
    EXPECT_GT(looks, 20);
    device.on_change = nullptr;
}

/// Types that come later hash packets to groups as they do those to the own address.
TEST_P(FilterChangesTest, LeadPacketsToGroupsByTheirClass) {
    state.multicast = {kGroup};
    const auto expect_alike = [&] {
        apply();
        for (const uint16_t type : {RTE_ETHER_TYPE_ARP, RTE_ETHER_TYPE_IPV4, RTE_ETHER_TYPE_IPV6})
            for (const uint8_t proto : {uint8_t{1}, kTcp, kUdp})
                for (const rte_ether_addr& group : {kBroadcast, kGroup, kOtherGroup})
                    for (const rte_ether_addr& source : {kSecond, kStranger}) {
                        const Frame frame{group, type, proto, 0, source};
                        if (!state.all_multicast && rte_is_same_ether_addr(&group, &kOtherGroup)) {
                            EXPECT_FALSE(received(frame));
                            continue;
                        }
                        EXPECT_EQ(copies(frame), 1u);
                        EXPECT_EQ(takers(frame).front()->qp,
                                  takers({kOwn, type, proto}).front()->qp)
                            << "types " << state.rss_types << " type " << type << " proto "
                            << int{proto};
                    }
    };
    for (const bool all : {false, true}) {
        state.all_multicast = all;
        for (const uint64_t types :
             {uint64_t{0}, RTE_ETH_RSS_UDP, RTE_ETH_RSS_IP,
              RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP, RTE_ETH_RSS_TCP}) {
            state.rss_types = types;
            expect_alike();
            state.reta = {3, 2, 1, 0};
            expect_alike();
            state.reta = {0, 1, 2, 3};
        }
    }
}

TEST_F(FiltersTest, AFailedChangeLeavesEverythingAsItWas) {
    apply();
    const auto before = device.rules();
    const size_t qps_before = qps.size();
    state.reta = {1, 0, 1, 0};
    state.promiscuous = true;
    state.macs.push_back(kSecond);
    int failures = 0;
    for (int nth = 1;; ++nth) {
        device.fail_call(nth, ENOMEM);
        const auto done = filters.apply(state);
        if (done) break;
        ++failures;
        EXPECT_EQ(done.error().code, ENOMEM);
        EXPECT_NE(done.error().what.find("resources"), std::string::npos) << done.error().what;
        EXPECT_EQ(device.rules(), before);
        EXPECT_EQ(qps.size(), qps_before);
    }
    EXPECT_GT(failures, 20);
    EXPECT_TRUE(received({kStranger}));
}

TEST_F(FiltersTest, ClearReleasesEverything) {
    state.promiscuous = true;
    apply();
    filters.clear();
    EXPECT_TRUE(device.rules().empty());
    EXPECT_EQ(qps.size(), 0u);
    EXPECT_THAT(device.qps, IsEmpty());
    EXPECT_THAT(device.tables, IsEmpty());
    apply();
    EXPECT_TRUE(received({kStranger}));
}

TEST_F(FiltersTest, FallsBackToDefaultRules) {
    // Like mlx4: a MAC is matched completely or not at all.
    device.refuse_flow = [](const verbs_test::Flow& flow) {
        const auto eth = flow.spec<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
        return eth && Bytes(eth->mask.dst_mac, eth->mask.dst_mac + 6) != hex("ffffffffffff")
                   ? EINVAL
                   : 0;
    };
    state.promiscuous = state.all_multicast = true;
    apply();
    std::vector<unsigned> types;
    for (const auto* flow : device.rules())
        if (flow->attr().type != IBV_FLOW_ATTR_NORMAL) types.push_back(flow->attr().type);
    EXPECT_THAT(types, testing::UnorderedElementsAre(unsigned{IBV_FLOW_ATTR_ALL_DEFAULT},
                                                     unsigned{IBV_FLOW_ATTR_MC_DEFAULT}));
    EXPECT_TRUE(received({kStranger}));
}

TEST_F(FiltersTest, RulesShowThePrioritiesWithoutTrial) {
    const unsigned before = device.calls();
    apply();
    const size_t alive = device.rules().size() + 2 * qps.size(); // a hash QP has a table
    EXPECT_EQ(device.calls() - before, alive);
}

TEST_F(FiltersTest, WorksOnDevicesWithFewPriorities) {
    for (const uint16_t priorities : {1, 2, 4, 8}) {
        FakeDevice small{2};
        small.priorities = priorities;
        RssQps cache{small.api(), small.context(), small.pd(), small.rx_queues};
        {
            const auto own_steering = make_steering(small, cache);
            Filters own{*own_steering};
            FilterState wanted = state;
            wanted.reta = {0, 1};
            ASSERT_TRUE(own.apply(wanted)) << priorities;
            wanted.reta = {1, 0};
            ASSERT_TRUE(own.apply(wanted)) << priorities;
        }
        EXPECT_EQ(cache.size(), 0u);
        EXPECT_THAT(small.violations, IsEmpty());
    }
}

TEST_F(FiltersTest, SaysThatAnEmptyTableIsTheFault) {
    state.reta.clear();
    const auto done = filters.apply(state);
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().what.find("redirection table"), std::string::npos);
}

} // namespace
} // namespace rawqp::test
