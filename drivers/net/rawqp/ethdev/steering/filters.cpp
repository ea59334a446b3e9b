// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/filters.hpp"

#include "drivers/net/rawqp/ethdev/steering/steering.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <iterator>
#include <map>
#include <string>

namespace rawqp {

namespace {

/// What one filter matches. Providers that cannot mask a MAC address offer a default rule instead,
/// which has no layers and so no hash.
struct FilterRule {
    Pattern pattern;
    ibv_flow_attr_type fallback = IBV_FLOW_ATTR_NORMAL; ///< NORMAL: none
};

Pattern match_mac(const rte_ether_addr& value, const rte_ether_addr& mask) {
    Pattern pattern;
    std::ranges::copy(value.addr_bytes, pattern.eth().value.begin());
    std::ranges::copy(mask.addr_bytes, pattern.eth().mask.begin());
    return pattern;
}

Pattern with_tag(Pattern pattern, uint16_t vlan) {
    if (pattern.push(Protocol::vlan) == Pattern::Follows::yes)
        pattern.last().set(kVlanId, kVlanIdBits, vlan);
    return pattern;
}

constexpr rte_ether_addr kBroadcast{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
constexpr rte_ether_addr kWholeMac = kBroadcast;
constexpr rte_ether_addr kGroupBit{{0x01, 0, 0, 0, 0, 0}};

std::vector<FilterRule> filter_rules(const FilterState& state) {
    std::vector<FilterRule> list;
    // Each address once for any VLAN, or once for each VLAN of the filter. Verbs cannot match
    // "no tag", so a VLAN filter accepts tagged frames only.
    const auto add = [&](const Pattern& pattern, ibv_flow_attr_type fallback) {
        if (state.vlans.empty()) list.push_back({pattern, fallback});
        for (const uint16_t vlan : state.vlans)
            list.push_back({with_tag(pattern, vlan), IBV_FLOW_ATTR_NORMAL});
    };
    if (state.promiscuous) list.push_back({Pattern{}, IBV_FLOW_ATTR_ALL_DEFAULT});
    for (const rte_ether_addr& mac : state.macs)
        add(match_mac(mac, kWholeMac), IBV_FLOW_ATTR_NORMAL);
    add(match_mac(kBroadcast, kWholeMac), IBV_FLOW_ATTR_NORMAL);
    for (const rte_ether_addr& group : state.multicast)
        add(match_mac(group, kWholeMac), IBV_FLOW_ATTR_NORMAL);
    if (state.all_multicast) add(match_mac(kGroupBit, kGroupBit), IBV_FLOW_ATTR_MC_DEFAULT);
    return list;
}

/// The identity of a rule: the class comes first so that a map keeps rules of a class together. The
/// pattern's bytes are a string, because gcc 14 warns of an impossible overread in the order of
/// vectors.
using RuleKey = std::pair<TrafficClass, std::string>;

/// Of rules for groups (multicast, broadcast) the kernel's mlx5 driver tries first those whose kind
/// of match it has known the longest, whatever their priority. A rule for a class that is only
/// hashed apart later would never be reached, so all classes are there from the start.
std::vector<ClassRule> rules_of(const Pattern& pattern, uint64_t rss_types) {
    return pattern.multicast_only() ? split_by_each_class(pattern, rss_types)
                                    : split_by_class(pattern, rss_types);
}

/// Two patterns that match what `pattern` does, with another kind of match: by a bit of the source
/// address, which may be 0 or 1.
std::array<Pattern, 2> halves_of(const Pattern& pattern) {
    constexpr size_t kLastOfSource = 2 * RTE_ETHER_ADDR_LEN - 1;
    std::array halves{pattern, pattern};
    for (Pattern& half : halves)
        half.eth().mask[kLastOfSource] |= 1;
    halves[1].eth().value[kLastOfSource] |= 1;
    return halves;
}

struct WantedRule {
    Pattern pattern;
    ibv_flow_attr_type fallback;
    RssTargetRef target;
};
/// Most specific class first, as rules for groups need it.
using WantedRules = std::map<RuleKey, WantedRule, std::greater<>>;

WantedRules wanted_rules(const FilterState& state, RssQps& qps) {
    WantedRules wanted;
    for (const FilterRule& filter : filter_rules(state))
        for (ClassRule& rule : rules_of(filter.pattern, state.rss_types)) {
            RuleKey key{rule.traffic, std::string(rule.pattern.bytes(), '\0')};
            rule.pattern.write(reinterpret_cast<uint8_t*>(key.second.data()));
            wanted.try_emplace(
                std::move(key),
                WantedRule{rule.pattern, filter.fallback,
                           qps.target(destination_of(state.reta, state.key, rule.hash_fields))});
        }
    return wanted;
}

using SteeringRules = std::vector<SteeringRule>;

struct InstalledRule {
    RssTargetRef target;
    unsigned generation = 0;
    SteeringRules rules;
};
using InstalledRules = std::map<RuleKey, InstalledRule, std::greater<>>;

bool same_addresses(const std::vector<rte_ether_addr>& a, const std::vector<rte_ether_addr>& b) {
    return std::ranges::equal(a, b, [](const rte_ether_addr& one, const rte_ether_addr& other) {
        return rte_is_same_ether_addr(&one, &other) != 0;
    });
}

/// Whether all rules are for addresses in VLANs as before, and only some VLANs were added or
/// removed.
bool differ_in_vlans(const FilterState& a, const FilterState& b) {
    return a.vlans != b.vlans && !a.vlans.empty() && !b.vlans.empty() &&
           same_addresses(a.macs, b.macs) && same_addresses(a.multicast, b.multicast) &&
           a.promiscuous == b.promiscuous && a.all_multicast == b.all_multicast &&
           a.reta == b.reta && a.key == b.key && a.rss_types == b.rss_types;
}

/// The rules of those VLANs that only `state` has. Each address has some per VLAN, so that the
/// rules of all VLANs are many.
WantedRules rules_of_more_vlans(FilterState state, const FilterState& other, RssQps& qps) {
    std::vector<uint16_t> mine = std::exchange(state.vlans, {}), others = other.vlans;
    std::ranges::sort(mine);
    std::ranges::sort(others);
    std::ranges::set_difference(mine, others, std::back_inserter(state.vlans));
    if (state.vlans.empty()) return {};
    state.promiscuous = false; // its rule is for any VLAN
    return wanted_rules(state, qps);
}

} // namespace

struct Filters::Impl {
    Steering& steering;
    InstalledRules installed;
    std::optional<FilterState> applied; ///< the state that they implement
    unsigned group_generation = 0;      ///< of the rules for groups, which change together

    /// The rules, or none when the provider refuses them and a fallback stands in for them.
    Result<SteeringRules> install(TrafficClass traffic, const WantedRule& wanted,
                                  const SteeringLevels& levels, unsigned generation);
    Result<SteeringRules> install_halves(SteeringRequest& request, const Pattern& pattern);
    [[nodiscard]] unsigned next_group_generation(const WantedRules& wanted) const;
    Result<InstalledRules> add(const WantedRules& wanted, const SteeringLevels& levels,
                               unsigned of_groups);
    Result<void> apply(const WantedRules& wanted, const SteeringLevels& levels);
    Result<void> apply_all(const FilterState& state);
    Result<void> apply_vlans(const FilterState& state);
};

/// Nothing when the provider refuses them: it cannot mask addresses.
Result<SteeringRules> Filters::Impl::install_halves(SteeringRequest& request,
                                                    const Pattern& pattern) {
    SteeringRules rules;
    for (const Pattern& half : halves_of(pattern)) {
        request.pattern = half;
        auto rule = steering.install(request);
        if (!rule && is_refusal(rule.error().code)) return SteeringRules{};
        if (!rule) return tl::unexpected(rule.error());
        rules.push_back(std::move(*rule));
    }
    return rules;
}

Result<SteeringRules> Filters::Impl::install(TrafficClass traffic, const WantedRule& wanted,
                                             const SteeringLevels& levels, unsigned generation) {
    SteeringRequest request;
    request.level = levels.filter_level(traffic, generation);
    request.target = wanted.target;
    // Rules for groups that match the same would both get each packet, whatever their level.
    if (generation != 0 && wanted.pattern.multicast_only()) {
        auto halves = install_halves(request, wanted.pattern);
        if (!halves || !halves->empty()) return halves;
    }
    request.pattern = wanted.pattern;
    auto rule = steering.install(request);
    // Before the levels are known, it may be the level that is refused.
    if (!rule && wanted.fallback != IBV_FLOW_ATTR_NORMAL && is_refusal(rule.error().code) &&
        steering.knows_levels()) {
        if (traffic != TrafficClass::other)
            return SteeringRules{}; // the rule of class other will take its packets
        RAWQP_LOG(NOTICE, "%s; using the device's default rule, which RSS does not reach",
                  rule.error().what.c_str());
        request.type = wanted.fallback;
        rule = steering.install(request);
    }
    if (!rule) return tl::unexpected(rule.error());
    SteeringRules rules;
    rules.push_back(std::move(*rule));
    return rules;
}

Filters::Filters(Steering& steering) : impl_(new Impl{steering, {}, {}, 0}) {}

Filters::~Filters() = default;

void Filters::clear() {
    impl_->installed.clear();
    impl_->applied.reset();
    impl_->group_generation = 0;
}

Result<void> Filters::apply(const FilterState& state) {
    if (state.reta.empty())
        return fail(EINVAL, "no Rx queue to receive into: the redirection table is empty");
    const auto& applied = impl_->applied;
    auto done = applied && differ_in_vlans(*applied, state) && impl_->steering.knows_levels()
                    ? impl_->apply_vlans(state)
                    : impl_->apply_all(state);
    if (done) impl_->applied = state;
    return done;
}

Result<void> Filters::Impl::apply_all(const FilterState& state) {
    const WantedRules wanted = wanted_rules(state, steering.qps());
    if (steering.knows_levels()) return apply(wanted, *steering.levels());
    // Most devices have all priorities that the driver can use: installing the rules proves it, and
    // only a refusal requires a trial.
    constexpr SteeringLevels kAll{};
    auto done = apply(wanted, kAll);
    if (done) return done;
    const auto levels = steering.levels();
    if (!levels) return tl::unexpected(levels.error());
    if (levels->priorities == kAll.priorities && !is_refusal(done.error().code)) return done;
    return apply(wanted, *levels);
}

Result<void> Filters::Impl::apply_vlans(const FilterState& state) {
    const WantedRules more = rules_of_more_vlans(state, *applied, steering.qps());
    const WantedRules gone = rules_of_more_vlans(*applied, state, steering.qps());
    auto added = add(more, *steering.levels(), group_generation);
    if (!added) return tl::unexpected(added.error());
    for (const auto& entry : gone)
        installed.erase(entry.first);
    installed.merge(*added);
    return {};
}

/// All of them move if one gets another target, because those of one generation stand before all of
/// the other's.
unsigned Filters::Impl::next_group_generation(const WantedRules& wanted) const {
    const bool moves = std::ranges::any_of(wanted, [&](const auto& entry) {
        const auto old = installed.find(entry.first);
        return entry.second.pattern.multicast_only() && old != installed.end() &&
               old->second.target != entry.second.target;
    });
    return moves ? 1 - group_generation : group_generation;
}

Result<InstalledRules> Filters::Impl::add(const WantedRules& wanted, const SteeringLevels& levels,
                                          unsigned of_groups) {
    InstalledRules added;
    for (const auto& [key, rule] : wanted) {
        const auto old = installed.find(key);
        const bool for_groups = rule.pattern.multicast_only();
        const bool stays = old != installed.end() && old->second.target == rule.target &&
                           (!for_groups || old->second.generation == of_groups);
        if (stays) continue;
        // The new destination coexists with the old one, in the other generation, until that is
        // removed.
        const unsigned generation = for_groups               ? of_groups
                                    : old == installed.end() ? 0
                                                             : 1 - old->second.generation;
        auto fresh = install(key.first, rule, levels, generation);
        if (!fresh) return tl::unexpected(fresh.error()); // `added` removes itself again
        if (!fresh->empty())
            added.emplace(key, InstalledRule{rule.target, generation, std::move(*fresh)});
    }
    return added;
}

Result<void> Filters::Impl::apply(const WantedRules& wanted, const SteeringLevels& levels) {
    const unsigned of_groups = next_group_generation(wanted);
    auto added = add(wanted, levels, of_groups);
    if (!added) return tl::unexpected(added.error());
    std::erase_if(installed, [&](const auto& entry) {
        return !wanted.contains(entry.first) || added->contains(entry.first);
    });
    installed.merge(*added);
    group_generation = of_groups;
    return {};
}

} // namespace rawqp
