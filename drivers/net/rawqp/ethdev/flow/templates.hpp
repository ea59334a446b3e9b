// SPDX-License-Identifier: BSD-3-Clause
// Templates of rte_flow: what the rules of a table have in common, so that a rule consists of its
// values.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/flow/item_kinds.hpp"
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace rawqp {

/// A list of items or actions with all that they point to.
template <class Entry> struct CopiedList {
    std::vector<uint64_t> memory; ///< aligned for what rte_flow_conv lays out in it
    size_t count = 0;             ///< without END

    [[nodiscard]] Entry* entries() { return reinterpret_cast<Entry*>(memory.data()); }
    [[nodiscard]] const Entry* entries() const {
        return reinterpret_cast<const Entry*>(memory.data());
    }
};

} // namespace rawqp

// What the application holds pointers to. The declarations belong to DPDK, hence no namespace.

struct rte_flow_pattern_template {
    rte_flow_pattern_template_attr attributes;
    rawqp::CopiedList<rte_flow_item> items; ///< with masks, and zeros for specs
    size_t users = 0;                       ///< tables
};

struct rte_flow_actions_template {
    rte_flow_actions_template_attr attributes;
    /// An action whose configuration each rule gives.
    struct Given {
        size_t at;
        rte_flow_action_type type;   ///< as rules have it
        rte_flow_action_type behind; ///< the action that an indirect one stands for
    };
    [[nodiscard]] bool gives(rte_flow_action_type indirect) const {
        return std::ranges::any_of(given, [&](const Given& each) {
            return each.type == RTE_FLOW_ACTION_TYPE_INDIRECT && each.behind == indirect;
        });
    }
    rawqp::CopiedList<rte_flow_action> actions; ///< with placeholder values for what rules give
    std::vector<std::vector<uint8_t>> headers;  ///< that its actions push as they are
    std::vector<Given> given;
    /// For an rss and an age that rules give: the template's part, where the masks are not zero.
    rte_flow_action_rss rss{}, rss_mask{};
    rte_flow_action_age age{}, age_mask{};
    size_t users = 0; ///< tables
};

namespace rawqp {

/// What a rule of a pattern template and an actions template is made of, complete except for its
/// values.
struct Recipe {
    /// An item's value, which belongs to a layer of this part.
    struct Value {
        uint8_t item;
        const ItemKind* kind;
        size_t part;
        std::vector<PatternMask::Source> sources; ///< in the layer
        uint8_t index;                            ///< of its tag
        bool plain;                               ///< the layer is the spec as it is
    };
    OwnedRule model;           ///< not in the device
    std::vector<Value> values; ///< which are zeros in its parts
    bool counts = false;       ///< each rule has a counter of its own
    bool ages = false;         ///< and an age by it

    /// The trial rule had them: the table's rules have their own, or give them.
    void drop_counter() {
        if (model->counter && !model->counter->shared()) model->counter = nullptr;
        if (model->age && !model->age->shared()) model->age = nullptr;
    }
    /// Replaces another recipe of the same templates.
    void take_over(const Recipe& former) {
        counts = former.counts;
        ages = former.ages;
        drop_counter();
    }
};

/// Memory for rules, all of one size, taken and given back without allocation.
class RuleSlots final : public RuleMemory {
  public:
    RuleSlots(size_t count, size_t bytes);
    /// Null: all are in use.
    [[nodiscard]] void* take();
    void release(void* slot, size_t) override { free_.push_back(slot); }
    /// Room for one.
    [[nodiscard]] size_t bytes() const { return units_ * sizeof(std::max_align_t); }
    [[nodiscard]] size_t count() const { return count_; }
    [[nodiscard]] bool all_free() const { return free_.size() == count_; }
    [[nodiscard]] size_t number_of(const void* slot) const {
        return static_cast<size_t>(static_cast<const std::max_align_t*>(slot) - memory_.get()) /
               units_;
    }

  private:
    size_t count_, units_;
    std::unique_ptr<std::max_align_t[]> memory_;
    std::vector<void*> free_; ///< has room for all of them
};

/// A template that names directions is for tables of those directions only.
template <class Attributes>
FlowResult<void> check_direction(const Attributes& of, const char* what,
                                 const rte_flow_attr& table) {
    const bool any = of.ingress == 0 && of.egress == 0 && of.transfer == 0;
    const bool named = table.egress != 0 ? of.egress != 0 : of.ingress != 0;
    if (any || named || table.transfer != 0) return {}; // transfer rules are refused anyway
    return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, &table,
                  "a table of {} rules with {} template that was made for {}: make one for {}",
                  table.egress != 0 ? "egress" : "ingress", what,
                  of.ingress != 0  ? "ingress"
                  : of.egress != 0 ? "egress"
                                   : "transfer",
                  table.egress != 0 ? "egress" : "ingress");
}

/// Refusals name the item. The values of all fields of an item may differ from rule to rule, except
/// those that decide which headers follow.
[[nodiscard]] FlowResult<std::unique_ptr<rte_flow_pattern_template>>
make_pattern_template(const rte_flow_pattern_template_attr& attributes, const rte_flow_item* items);
/// Refusals name the action.
[[nodiscard]] FlowResult<std::unique_ptr<rte_flow_actions_template>>
make_actions_template(const rte_flow_actions_template_attr& attributes,
                      const rte_flow_action* actions, const rte_flow_action* masks);
/// What a rule of the template does with its action rss or age, which it gives in part.
[[nodiscard]] rte_flow_action_rss rss_of(const rte_flow_actions_template& from,
                                         const rte_flow_action_rss& given);
[[nodiscard]] rte_flow_action_age age_of(const rte_flow_actions_template& from,
                                         const rte_flow_action_age* given);
/// The values of rules made by this plan, as the model is.
[[nodiscard]] FlowResult<std::vector<Recipe::Value>>
values_of(const Plan& plan, const rte_flow& model, const rte_flow_pattern_template& pattern);

} // namespace rawqp

struct rte_flow_template_table {
    rte_flow_attr attributes;
    std::vector<rte_flow_pattern_template*> patterns;
    std::vector<rte_flow_actions_template*> actions;
    std::vector<rawqp::Recipe> recipes;   ///< of all pairs, those of a pattern together
    std::vector<rawqp::PartRef> prepared; ///< see Steering::prepare
    std::unique_ptr<rawqp::RuleSlots> slots;
    /// The counter of the rule in each slot, if rules have their own.
    struct SlotCounter {
        rawqp::CounterRef counter;
        bool used = false;
        rawqp::AgeRef age; ///< if rules have such, too
    };
    std::vector<SlotCounter> counters;
    std::vector<rawqp::RssTargetRef> queues; ///< those of its rules, once there has been one
    rawqp::RssSpread spread;                 ///< of the rule at hand, if it gives an rss
    rawqp::RssDestination destination;       ///< of its part at hand

    [[nodiscard]] rawqp::Recipe& recipe(size_t pattern, size_t action) {
        return recipes[pattern * actions.size() + action];
    }
};
