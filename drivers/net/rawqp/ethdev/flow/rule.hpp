// SPDX-License-Identifier: BSD-3-Clause
// An rte_flow rule as the driver keeps it: one piece of memory, whatever the rule is made of (what
// it changes in packets is beside it).
#pragma once

#include "drivers/net/rawqp/ethdev/flow/actions.hpp"
#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/flow/level_map.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include <memory>
#include <string_view>

namespace rawqp {

using Counters = verbs::Handle<ibv_counters>;

/// A rule of the device before it has a place to be kept in.
struct PlannedPart {
    TrafficClass traffic = TrafficClass::other;
    Pattern pattern;
    RssTargetRef target; ///< null for egress
};

/// What all parts of a rule have in common.
struct RuleTerms {
    uint32_t priority = 0;
    uint32_t tag = 0; ///< flow tag of mark or flag; 0: none
    bool egress = false;
    bool drop = false;
    SharedEdits edits; ///< null: none

    /// What the device is asked for a part, but for its counters.
    [[nodiscard]] SteeringRequest request(Pattern pattern, RssTargetRef target,
                                          uint16_t level) const;
};

/// A rule as translated, of which the device knows nothing.
struct Plan : RuleTerms {
    const rte_flow_action* count = nullptr;
    std::vector<PlannedPart> parts; ///< most specific class first
};

/// One rule of the device, in the memory of the rule that it is a part of.
struct RulePart {
    rte_flow* rule;
    std::string_view key; ///< priority and pattern: equal ones the device could not tell apart
    uint64_t hash;        ///< of the key
    TrafficClass traffic;
    RssTargetRef target;
    PlaceRef place;         ///< of an ingress rule that is kept
    SteeringRule installed; ///< while the port runs
};

/// The bytes that a key is made of.
[[nodiscard]] std::string key_of(uint32_t priority, bool egress, const Pattern& pattern);
/// The pattern of such a key.
[[nodiscard]] Pattern pattern_of(std::string_view key);
[[nodiscard]] uint64_t hash_of(std::string_view key);

} // namespace rawqp

/// What the application holds a pointer to. The declaration belongs to DPDK, hence no namespace.
struct rte_flow : rawqp::RuleTerms {
    rte_flow *before = nullptr, *after = nullptr; ///< in order of creation
    uint16_t part_count = 0;
    rawqp::Counters counters;                  ///< outlives the rules that count into it
    uint64_t seen_packets = 0, seen_bytes = 0; ///< counts at the last reset

    /// The memory holds the parts and their keys as well.
    [[nodiscard]] static rte_flow* make(const rawqp::Plan& plan, rawqp::Counters counters);
    static void destroy(rte_flow* rule);

    rte_flow(const rte_flow&) = delete;
    rte_flow& operator=(const rte_flow&) = delete;

    [[nodiscard]] std::span<rawqp::RulePart> parts() {
        return {reinterpret_cast<rawqp::RulePart*>(this + 1), part_count};
    }
    /// One line for each rule of the device, for people.
    [[nodiscard]] std::string text();
    [[nodiscard]] rawqp::SteeringRequest request(const rawqp::RulePart& part, uint16_t level) const;

  private:
    rte_flow() = default;
    ~rte_flow() = default;
};

namespace rawqp {
struct DestroyRule {
    void operator()(rte_flow* rule) const { rte_flow::destroy(rule); }
};
using OwnedRule = std::unique_ptr<rte_flow, DestroyRule>;
} // namespace rawqp
