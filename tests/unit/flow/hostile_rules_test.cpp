// SPDX-License-Identifier: BSD-3-Clause
// Rules of random items and actions that point to random bytes: validate and create agree on each,
// next to other rules, and those refused leave nothing behind.
#include "tests/fuzz/flow_rule.hpp"
#include "tests/unit/flow/flow_table.hpp"

#include <array>
#include <optional>
#include <random>
#include <set>
#include <type_traits>

namespace rawqp::test {
namespace {

constexpr size_t kItems = RTE_FLOW_ITEM_TYPE_L2TPV2, kActions = RTE_FLOW_ACTION_TYPE_CONNTRACK;
constexpr size_t kRules = 50'000, kMostStanding = 20;
using Bytes256 = std::array<uint8_t, 256>; // larger than any item or action

/// Actions whose configurations contain pointers.
constexpr rte_flow_action_type kPointing[] = {
    RTE_FLOW_ACTION_TYPE_RSS,          RTE_FLOW_ACTION_TYPE_RAW_ENCAP,
    RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP,  RTE_FLOW_ACTION_TYPE_NVGRE_ENCAP,
    RTE_FLOW_ACTION_TYPE_SAMPLE,       RTE_FLOW_ACTION_TYPE_RAW_DECAP,
    RTE_FLOW_ACTION_TYPE_MODIFY_FIELD, RTE_FLOW_ACTION_TYPE_INDIRECT};

class HostileRulesTest : public FlowTableTest, public testing::WithParamInterface<FlowEngine> {
  protected:
    HostileRulesTest() : FlowTableTest(GetParam()) {}

    std::mt19937 random{20221122};
    std::vector<rte_flow_item> items;
    std::vector<rte_flow_action> actions;
    std::vector<std::unique_ptr<Bytes256>> memory; ///< what they point to

    std::optional<fuzz::FlowRule> rule; ///< owns the memory of configurations with pointers
    std::vector<const rte_flow_action_handle*> shared;

    uint32_t below(size_t end) { return static_cast<uint32_t>(random() % end); }

    /// Mostly zeros, so that some of it makes sense; or small numbers.
    const void* some_bytes() {
        Bytes256& bytes = *memory.emplace_back(std::make_unique<Bytes256>());
        const uint32_t count = below(4);
        for (uint32_t i = 0; i < count; ++i)
            bytes[below(4) == 0 ? below(bytes.size()) : below(24)] =
                static_cast<uint8_t>(below(2) == 0 ? 0xff : below(8));
        return bytes.data();
    }
    const void* maybe_bytes() { return below(3) == 0 ? some_bytes() : nullptr; }

    void add_item(rte_flow_item_type type) {
        rte_flow_item item{};
        item.type = type;
        item.spec = maybe_bytes();
        item.mask = item.spec != nullptr || below(16) == 0 ? maybe_bytes() : nullptr;
        item.last = below(8) == 0 ? maybe_bytes() : nullptr;
        items.push_back(item);
    }
    /// Says of an item by its EtherType that a tag follows, and by its flag either.
    template <class Item> void announce_tag(rte_flow_item& item) {
        const auto fill = [&](const void*& half, rte_be16_t type, uint32_t flag) {
            void* const bytes = memory.emplace_back(std::make_unique<Bytes256>())->data();
            auto& made = *static_cast<Item*>(bytes);
            if constexpr (std::is_same_v<Item, rte_flow_item_eth>) {
                made.hdr.ether_type = type;
                made.has_vlan = flag & 1;
            } else {
                made.hdr.eth_proto = type;
                made.has_more_vlan = flag & 1;
            }
            half = bytes;
        };
        fill(item.spec, below(2) == 0 ? RTE_BE16(0x8100) : RTE_BE16(0x88a8), below(2));
        fill(item.mask, 0xffff, 1);
    }
    /// A usual stack of headers, with something odd in it now and then.
    void make_items() {
        items.clear();
        constexpr rte_flow_item_type kL4[] = {RTE_FLOW_ITEM_TYPE_TCP, RTE_FLOW_ITEM_TYPE_ICMP,
                                              RTE_FLOW_ITEM_TYPE_ESP, RTE_FLOW_ITEM_TYPE_AH};
        constexpr rte_flow_item_type kTunnels[] = {
            RTE_FLOW_ITEM_TYPE_VXLAN, RTE_FLOW_ITEM_TYPE_GENEVE, RTE_FLOW_ITEM_TYPE_MPLS};
        add_item(RTE_FLOW_ITEM_TYPE_ETH);
        if (below(16) == 0) announce_tag<rte_flow_item_eth>(items.back());
        if (below(4) == 0) {
            add_item(RTE_FLOW_ITEM_TYPE_VLAN);
            if (below(4) == 0) announce_tag<rte_flow_item_vlan>(items.back());
        }
        if (below(4) != 0) {
            add_item(below(3) == 0 ? RTE_FLOW_ITEM_TYPE_IPV6 : RTE_FLOW_ITEM_TYPE_IPV4);
            if (below(2) == 0) {
                add_item(RTE_FLOW_ITEM_TYPE_UDP);
                if (below(2) == 0) add_item(kTunnels[below(std::size(kTunnels))]);
            } else if (below(2) == 0) {
                add_item(kL4[below(std::size(kL4))]);
            }
        }
        if (below(4) == 0)
            items[below(items.size())].type = static_cast<rte_flow_item_type>(below(kItems) + 1);
        items.push_back({});
    }
    /// Mostly zeros, too.
    const void* configuration(rte_flow_action_type type) {
        std::vector<uint8_t> bytes(64);
        for (uint32_t count = below(16); count > 0; --count)
            bytes[below(below(4) == 0 ? bytes.size() : 10)] = static_cast<uint8_t>(below(8));
        fuzz::Input input(bytes);
        return rule->configuration(type, input);
    }
    static bool points_on(rte_flow_action_type type) {
        return std::ranges::find(kPointing, type) != std::end(kPointing);
    }
    void make_actions() {
        actions.clear();
        for (uint32_t count = below(3); count > 0; --count) {
            rte_flow_action action{};
            action.type = static_cast<rte_flow_action_type>(below(kActions) + 1);
            if (below(4) == 0) action.type = kPointing[below(std::size(kPointing))];
            if (below(8) != 0)
                action.conf = points_on(action.type) ? configuration(action.type) : some_bytes();
            actions.push_back(action);
        }
        rte_flow_action fate{};
        fate.type = below(2) == 0 ? RTE_FLOW_ACTION_TYPE_DROP : RTE_FLOW_ACTION_TYPE_QUEUE;
        fate.conf = some_bytes();
        const bool spread = std::ranges::any_of(actions, [](const rte_flow_action& action) {
            return action.type == RTE_FLOW_ACTION_TYPE_RSS ||
                   action.type == RTE_FLOW_ACTION_TYPE_INDIRECT;
        });
        if (below(8) >= (spread ? 6u : 1u)) actions.push_back(fate);
        actions.push_back({});
    }
    void share_actions() {
        static constexpr uint16_t kQueues[] = {1, 3};
        rte_flow_action_rss rss{};
        rss.types = RTE_ETH_RSS_IP;
        rss.queue = kQueues;
        rss.queue_num = 2;
        const rte_flow_action action{RTE_FLOW_ACTION_TYPE_RSS, &rss};
        rte_flow_indir_action_conf conf{};
        conf.ingress = 1;
        shared = {table.share(&conf, &action, &error)};
        ASSERT_NE(shared.front(), nullptr) << error.message;
    }
    rte_flow_attr some_attributes() {
        rte_flow_attr attr{};
        attr.group = below(4) == 0 ? below(4) : 0;
        attr.priority = below(4) == 0 ? random() : below(3);
        attr.egress = below(8) == 0;
        attr.ingress = below(32) == 0 ? below(2) : !attr.egress;
        attr.transfer = below(32) == 0;
        return attr;
    }
};

TEST_P(HostileRulesTest, ValidateAndCreateSayTheSame) {
    start();
    share_actions();
    size_t made = 0;
    std::set<rte_flow_action_type> done; ///< in rules that were accepted
    std::vector<rte_flow*> standing;
    for (size_t n = 0; n < kRules; ++n) {
        SCOPED_TRACE(n);
        memory.clear();
        rule.emplace(shared);
        make_items();
        make_actions();
        const rte_flow_attr attr = some_attributes();
        const size_t before = device.flows.size();
        const int verdict = table.validate(&attr, items.data(), actions.data(), &error);
        const std::string why = verdict != 0 ? error.message : "";
        ASSERT_EQ(device.flows.size(), before);
        rte_flow* const flow = table.create(&attr, items.data(), actions.data(), &error);
        ASSERT_EQ(flow != nullptr, verdict == 0) << (flow != nullptr ? why : error.message);
        if (flow == nullptr) {
            ASSERT_EQ(why, error.message);
            ASSERT_FALSE(why.empty());
            ASSERT_NE(error.type, RTE_FLOW_ERROR_TYPE_NONE);
            ASSERT_EQ(device.flows.size(), before);
            continue;
        }
        ++made;
        for (const rte_flow_action& action : actions)
            if (action.conf != nullptr) done.insert(action.type);
        standing.push_back(flow);
        if (standing.size() < kMostStanding) continue;
        std::swap(standing[below(standing.size())], standing.back());
        ASSERT_EQ(table.destroy(standing.back(), &error), 0) << error.message;
        standing.pop_back();
    }
    EXPECT_GT(made, kRules / 50) << "most of them are refused, but not nearly all";
    EXPECT_TRUE(done.contains(RTE_FLOW_ACTION_TYPE_RSS));
    EXPECT_TRUE(done.contains(RTE_FLOW_ACTION_TYPE_INDIRECT));
}

INSTANTIATE_TEST_SUITE_P(Engines, HostileRulesTest,
                         testing::Values(FlowEngine::automatic, FlowEngine::mlx5));

} // namespace
} // namespace rawqp::test
