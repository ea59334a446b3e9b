// SPDX-License-Identifier: BSD-3-Clause
// The actions of an rte_flow rule, checked and collected.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/flow/shared_action.hpp"
#include "drivers/net/rawqp/ethdev/steering/edits.hpp"
#include "drivers/net/rawqp/ethdev/steering/engine.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

namespace rawqp {

class Meters;

/// The queues of a rule and how packets are spread over them.
struct RssSpread {
    /// Indirection entries of the destination (power of two); none: all go to one queue.
    std::vector<uint16_t> table;
    RssKey key = kDefaultRssKey;
    uint64_t rss_types = 0; ///< 0: no hashing
    uint8_t rss_depth = 0;  ///< 1: by the headers inside a tunnel

    /// Where packets of a class go if their hash has these fields. Reuses the memory of another
    /// destination.
    [[nodiscard]] RssDestination destination(uint64_t hash_fields,
                                             RssDestination memory = {}) const;
};

/// What happens to the copies that an action sample makes.
struct SampleActions {
    const rte_flow_action* action = nullptr; ///< the sample itself
    uint32_t ratio = 1;
    uint16_t queue = 0;
    uint32_t tag = 0;
    const rte_flow_action* count = nullptr; ///< the count action, if there is one
    CounterRef shared_counter;              ///< of an indirect one
};

/// The actions to name in refusals, by what they are about. Null: there is none.
class NamedActions {
  public:
    /// Of several, the first is kept.
    void add(Concern concern, const rte_flow_action& action) {
        if (at(concern) == nullptr) at(concern) = &action;
    }
    void replace(const rte_flow_action& action, const rte_flow_action& by) {
        std::ranges::replace(named_, &action, &by);
    }
    [[nodiscard]] const rte_flow_action* operator[](Concern concern) const {
        return named_[static_cast<size_t>(concern)];
    }

  private:
    const rte_flow_action*& at(Concern concern) { return named_[static_cast<size_t>(concern)]; }

    std::array<const rte_flow_action*, kConcerns> named_{};
};

struct FlowActions : RssSpread {
    uint16_t queue = 0; ///< unless there is a table; some queue when dropping
    bool drop = false;
    std::optional<uint32_t> jump; ///< to this group
    bool passes = false;          ///< on to the rules of lower priority
    bool to_kernel = false;
    uint32_t tag = 0; ///< flow tag of mark or flag; 0: none
    Edits edits;
    NamedActions named;

    const rte_flow_action* count = nullptr; ///< the count action, if there is one
    CounterRef shared_counter;              ///< of an indirect one
    const rte_flow_action* age = nullptr;   ///< the age action, if there is one
    AgeRef shared_age;                      ///< of an indirect one
    std::optional<SampleActions> sample;
    MeterRef meter;             ///< null: none
    bool counts_passed = false; ///< see RuleTerms
    SharedActionRef shared_rss; ///< the indirect action that the destination comes from

    /// Of the headers that an rss looks at, as the pattern has them: those inside a tunnel are the
    /// outermost ones once it has come off.
    [[nodiscard]] uint8_t depth_of_hash() const { return edits.strips_tunnel() ? 1 : rss_depth; }
};

/// The context that actions are read in.
struct ActionScope {
    std::span<const Pattern> patterns; ///< of the rule; not empty
    uint32_t group;
    bool egress;
    uint16_t rx_queues;   ///< that the port has at present
    size_t table_entries; ///< of an indirection table, at most; a power of two
    const SharedActions& shared;
    const Meters* meters; ///< null: there are none
};

/// Errors name the action.
[[nodiscard]] FlowResult<FlowActions> translate_actions(const rte_flow_action* actions,
                                                        const ActionScope& scope);

/// All supported actions: "queue, rss, …".
[[nodiscard]] std::string action_names();

/// Checks that the queue exists. `name`: of the action.
[[nodiscard]] FlowResult<void> check_queue(const rte_flow_action& action, const char* name,
                                           uint16_t queue, uint16_t rx_queues);

/// Checks that a jump leads onwards from this group.
[[nodiscard]] FlowResult<void> check_jump(const rte_flow_action& action, uint32_t from);

/// The action that an action indirect stands for, in a rule of this direction.
[[nodiscard]] FlowResult<SharedActionRef> find_shared(const rte_flow_action& action,
                                                      const SharedActions& shared, bool egress);

[[nodiscard]] FlowResult<void> check_age(const rte_flow_action& action);
/// The refusal of an age alongside an indirect count.
[[nodiscard]] tl::unexpected<FlowError> refuse_shared_count(const rte_flow_action* age);

/// The flow tag for an action mark.
[[nodiscard]] FlowResult<uint32_t> tag_of_mark(const rte_flow_action& action);

/// Checks a configuration of action rss by itself, whatever the pattern.
[[nodiscard]] FlowResult<void> check_rss(const rte_flow_action& action, uint16_t rx_queues,
                                         size_t table_entries);
/// Reads a configuration that has been checked; allocates no memory if `spread` had as many queues.
void read_rss(const rte_flow_action_rss& conf, size_t table_entries, RssSpread& spread);

} // namespace rawqp
