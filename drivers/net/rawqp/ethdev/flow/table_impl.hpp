// SPDX-License-Identifier: BSD-3-Clause
// What the files of FlowTable share: plan.cpp turns requests of the application into plans,
// table.cpp manages the rules' lives, table_stages.cpp orders those of groups, table_groups.cpp
// chooses what serves groups, table_shared.cpp changes live rules, table_templates.cpp makes tables
// of templates, and table_async.cpp the rules in them.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/backwards.hpp"
#include "drivers/net/rawqp/ethdev/flow/flow_queue.hpp"
#include "drivers/net/rawqp/ethdev/flow/known_shapes.hpp"
#include "drivers/net/rawqp/ethdev/flow/rule_list.hpp"
#include "drivers/net/rawqp/ethdev/flow/rule_pool.hpp"
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace rawqp {

inline constexpr uint32_t kMostRules = 1u << 24; ///< of a template table

struct FlowTable::Impl {
    Steering& steering;
    RxQueueSet& queues;
    std::unique_ptr<PortGuard> guard; ///< null: rules may take ports that sockets have
    const Meters* meters;             ///< null: there are none
    bool running = false;             ///< between start and stop: rules are in the device
    LevelMap levels{};                ///< of ingress rules
    GroupStages stages{};             ///< of all groups above 0
    std::vector<rte_flow*> coming{};  ///< rules with places that are not in a list yet
    SharedActions shared{};
    std::vector<std::unique_ptr<rte_flow_pattern_template>> pattern_templates{};
    std::vector<std::unique_ptr<rte_flow_actions_template>> actions_templates{};
    std::vector<std::unique_ptr<rte_flow_template_table>> tables{};
    std::vector<FlowQueue> operations{};
    PatternMasks masks{};
    RuleRequest request{}; ///< of the part at hand
    RulePool pool{};       ///< of rules that are in no table's memory
    RuleList rules{};
    KnownShapes shapes{}; ///< of rules made while the port runs
    FlowAges ages{};
    std::function<void()> on_ages{};

    // plan.cpp
    FlowResult<Plan> translate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                               const rte_flow_action* actions);
    /// translate() without what depends on the rule's values.
    FlowResult<Plan> outline(const rte_flow_attr* attr, const rte_flow_item* pattern,
                             const rte_flow_action* actions);
    /// Plans a rule with these terms; `replaced` is the one whose place it takes, or null.
    Plan plan(const RulePosition& position, std::span<const Pattern> patterns,
              const FlowActions& wanted, const rte_flow* replaced);
    /// Finds engines that can express all of it; the device is not asked.
    FlowResult<void> choose_engines(Plan& plan, const rte_flow_item* pattern);
    /// Makes the rule of a plan, not yet in the device, if there is room for it among others.
    /// `attr`: the application's, which refusals name; null where it asks for no new rule.
    [[nodiscard]] FlowResult<OwnedRule> make_rule(Plan& plan, const rte_flow_attr* attr,
                                                  const rte_flow* replaced);
    /// Checks whether another rule has the same match, and chooses turns.
    FlowResult<void> find_room(rte_flow& rule, const rte_flow* replaced) const;
    [[nodiscard]] ActionScope scope(std::span<const Pattern> patterns,
                                    const RulePosition& position) const {
        return {patterns, position.group, position.egress, queues.count(), queues.table_entries(),
                shared,   meters};
    }

    // table.cpp
    FlowResult<rte_flow*> create(const rte_flow_attr* attr, const rte_flow_item* pattern,
                                 const rte_flow_action* actions);
    /// Whether it would be created.
    FlowResult<void> check(const rte_flow_attr* attr, const rte_flow_item* pattern,
                           const rte_flow_action* actions);
    /// Makes the rule of a plan: in the device if the port runs, else accepted by it.
    FlowResult<OwnedRule> realize(Plan& plan, const rte_flow_attr* attr, const rte_flow* replaced);
    /// Called before there is a packet that the rule marks.
    void prepare_reports(const RuleTerms& rule);
    /// The rule is live: its age is watched from now on; an age shared by several rules also
    /// watches the rule's own counter.
    void watch_age(rte_flow& rule);
    void watch(const AgeRef& age);
    /// `replaces`: it takes over from another rule.
    Result<void> place(rte_flow& rule, bool replaces = false);
    Result<void> place_again();
    [[nodiscard]] bool is_early(const rte_flow& rule) const;
    FlowResult<void> validate(rte_flow& rule);
    /// Of a rule that a table made by what it has kept: the port may have fewer Rx queues since.
    [[nodiscard]] FlowResult<void> check_targets(const rte_flow& rule) const;
    Result<void> install(rte_flow& rule);

    // table_stages.cpp
    /// Finds the table of its group for a rule or a model, and opens one for what it passes on.
    FlowResult<void> choose_stage(rte_flow& rule, const rte_flow_attr* attr);
    FlowResult<UseRef> open_stage(const RulePosition& position, const rte_flow_attr* attr);
    /// How many rules, and tables that pass packets on, are behind this position and would belong
    /// to the next stage; those of priorities after `end` do already.
    [[nodiscard]] size_t count_behind(const RulePosition& position,
                                      std::optional<uint32_t> end) const;
    [[nodiscard]] Result<SteeringRule> lead_to(const GroupStages::Stage& stage);
    [[nodiscard]] Result<void> lead_to_stages();
    [[nodiscard]] uint8_t likely_stage(const rte_flow& model) const;

    // table_groups.cpp
    /// Switches all rules or none: on error, everything is as it was.
    FlowResult<void> serve_groups_by(GroupWay way);
    FlowResult<OwnedRule> make_anew(const rte_flow& rule);
    /// Checks that engines and levels suffice for what make_anew() would make of the existing
    /// rules.
    FlowResult<void> check_anew();
    /// Remakes at most `count` of them, in order; `count` becomes how many were remade.
    FlowResult<void> make_jumps_anew(size_t& count);
    void choose_engines(rte_flow_template_table& table);
    /// Prepares the device for the table's rules, after each choice of engines or of recipes.
    void prepare(rte_flow_template_table& table);
    /// Called before the first table of such groups and after the last one. `to_come`: the
    /// attributes of the table to come, or null.
    void choose_way(const rte_flow_attr* to_come);
    /// Whether groups by commands would take what software steering has refused, for which the
    /// existing rules would have to move there: runs `trial`, which leaves nothing behind, as if
    /// they had.
    template <class Trial> FlowResult<void> ask_commands(const FlowError& refused, Trial trial) {
        static_assert(is_refusal(ENOTSUP), "a lack is one, too");
        if (steering.way() == GroupWay::commands || !is_refusal(refused.code))
            return tl::unexpected(refused);
        steering.set_way(GroupWay::commands);
        FlowResult<void> answer = trial();
        if (answer) answer = check_anew();
        steering.set_way(GroupWay::software);
        return answer;
    }
    /// Runs `attempt`; if it needs groups by commands, groups are served that way from then on.
    template <class Attempt, class Trial>
    auto in_either_way(Attempt attempt, Trial trial) -> decltype(attempt()) {
        auto done = attempt();
        if (done) return done;
        if (auto answer = ask_commands(done.error(), trial); !answer)
            return tl::unexpected(answer.error());
        RAWQP_LOG(INFO, "software steering has no words: %s", done.error().what.c_str());
        if (auto moved = serve_groups_by(GroupWay::commands); !moved)
            return tl::unexpected(moved.error());
        return attempt();
    }
    /// Returns when the device has everything that was requested.
    FlowResult<void> settle();
    /// The same after a change that stands whatever the device says: `what` names it, and what
    /// packets may meet until the next settle().
    void settle_done(const char* what);

    // table_shared.cpp
    FlowResult<SharedActionRef> share(const rte_flow_indir_action_conf& directions,
                                      const rte_flow_action& action);
    FlowResult<void> update(const SharedActionRef& shared, const rte_flow_action& update);
    FlowResult<std::vector<std::pair<Recipe*, Recipe>>> recipes_anew(const SharedActionRef& action);
    FlowResult<void> update(rte_flow& rule, const rte_flow_action* actions);
    FlowResult<void> check_update(const rte_flow& rule, const rte_flow_action* actions);
    /// `edits`: that the rule keeps besides these actions; null: none.
    FlowResult<Plan> plan_again(const rte_flow& rule, const rte_flow_action* actions,
                                const SharedEdits& edits = nullptr);

    // table_templates.cpp
    using OwnedTable = std::unique_ptr<rte_flow_template_table>;
    FlowResult<OwnedTable> make_table(const rte_flow_template_table_attr& attributes,
                                      std::span<rte_flow_pattern_template*> patterns,
                                      std::span<rte_flow_actions_template*> actions);
    FlowResult<OwnedTable> create_table(const rte_flow_template_table_attr& attributes,
                                        std::span<rte_flow_pattern_template*> patterns,
                                        std::span<rte_flow_actions_template*> actions);
    FlowResult<Recipe> make_recipe(const rte_flow_attr& attributes,
                                   const rte_flow_pattern_template& pattern,
                                   const rte_flow_actions_template& actions);
    FlowResult<void> count(rte_flow_template_table& table, Recipe& recipe, size_t rules);
    FlowResult<void> own_counters(rte_flow_template_table& table, Recipe& recipe,
                                  const rte_flow_actions_template& actions, size_t rules);

    // table_async.cpp
    struct Values;
    FlowResult<void> take_values(rte_flow_template_table& table,
                                 const rte_flow_actions_template& from,
                                 const rte_flow_action* actions, RuleTerms& terms, Values& values);
    FlowResult<void> take_shared(const rte_flow_action& action, rte_flow_action_type behind,
                                 rte_flow_template_table& table,
                                 const rte_flow_actions_template& from, RuleTerms& terms,
                                 Values& values);
    FlowResult<void> take_rss(const rte_flow_action& action, const rte_flow_action_rss& rss,
                              rte_flow_template_table& table, const rte_flow_actions_template& from,
                              Values& values);
    void lead(rte_flow& rule, rte_flow_template_table& table, const Values& values);
    FlowResult<void> count_anew(rte_flow_template_table& table, const Recipe& recipe,
                                const Values& values, rte_flow& rule);
    FlowResult<OwnedRule> fill(rte_flow_template_table& table, size_t pattern,
                               const rte_flow_item* items, size_t action,
                               const rte_flow_action* actions);
    FlowResult<rte_flow*> create(rte_flow_template_table& table, size_t pattern,
                                 const rte_flow_item* items, size_t action,
                                 const rte_flow_action* actions);
    FlowResult<rte_flow*> enter(OwnedRule rule);
    [[nodiscard]] FlowResult<void> check_queue(uint32_t queue) const;
    /// The same, and whether it has room for another result.
    [[nodiscard]] FlowResult<void> check_room(uint32_t queue) const;

    /// With a guard, for a rule or a plan whose packets might have been the kernel's. `pattern`:
    /// what refusals name; null where nobody says which item is to blame, as with templates.
    template <class Rule> FlowResult<void> reserve_ports(Rule& rule, const rte_flow_item* pattern) {
        if (!guard || !rule.takes_from_kernel()) return {};
        auto reserved = guard->reserve(rule.whole_patterns(), pattern);
        if (!reserved) return tl::unexpected(reserved.error());
        rule.ports = std::move(*reserved);
        return {};
    }

    // known_shapes.cpp
    FlowResult<void> make_template(const rte_flow_attr& attr, const rte_flow_item* items,
                                   const rte_flow_action* actions, KnownShape& shape);
    /// Makes a rule by the template of earlier ones. Nothing: there is no template, or it does not
    /// decide.
    std::optional<FlowResult<rte_flow*>> create_alike(const rte_flow_attr* attr,
                                                      const rte_flow_item* items,
                                                      const rte_flow_action* actions);

  private:
    /// Makes a table tell the classes of a rule apart; false: no engine can.
    bool put_at_one_level(Plan& plan);
    void add_parts(Plan& plan, const Pattern& pattern, const FlowActions& wanted);
    /// A sample's own counter also becomes the rule's, to be queried.
    [[nodiscard]] SampleRef make_sample(const SampleActions& wanted, Plan& plan,
                                        const rte_flow* replaced);
    [[nodiscard]] uint8_t turn_in_use(uint32_t priority, TrafficClass traffic) const;
    /// Whether `spared` priorities in all find levels, this one among them. `replaces`: see
    /// place().
    [[nodiscard]] bool has_levels_for(const rte_flow& rule, bool replaces, size_t spared) const;
    [[nodiscard]] tl::unexpected<FlowError> lacks_levels(const rte_flow& rule,
                                                         const rte_flow_attr* attr) const;
    FlowResult<void> choose_levels(Plan& plan, OwnedRule& rule, const rte_flow_attr* attr,
                                   const rte_flow* replaced);
    [[nodiscard]] PlaceTerms terms_of(const rte_flow& rule, bool replaces) const;
    /// Calls each(part) for the parts that have a place there.
    template <class Each> void of_place(const RulePlace& place, Each each);
    Result<void> install_anew(const RulePlace& place, uint16_t level);
    Result<void> merge(const RulePlace& from, const RulePlace& to);
    [[nodiscard]] SteeringLevels known_levels() const;
    [[nodiscard]] static uint16_t level_of(const rte_flow& rule, const RulePart& part);
    [[nodiscard]] RulePlace place_of(uint32_t priority, TrafficClass traffic, uint8_t turn) const {
        return {priority, known_levels().depth(traffic), turn};
    }
};

[[nodiscard]] tl::unexpected<FlowError> from_device(const Error& error);

/// The object behind a handle, which may be stale: it is compared, not dereferenced.
template <class T> auto find_handle(std::vector<std::unique_ptr<T>>& list, const T* handle) {
    return std::ranges::find(list, handle, &std::unique_ptr<T>::get);
}

// Calls to the device return through these: they are inline because, where the kernel clears the
// return predictor, each return after a system call is mispredicted.

inline void take_out(rte_flow& rule) {
    for (RulePart& part : Backwards(rule.parts()))
        part.installed = {};
}

/// Installs all of the rule or nothing. Most specific class first, as planned.
[[gnu::always_inline]] inline Result<void> FlowTable::Impl::install(rte_flow& rule) {
    for (RulePart& part : rule.parts()) {
        auto done = steering.install(request.of(part, level_of(rule, part)), part.installed);
        request.let_go();
        if (done) continue;
        take_out(rule);
        return done;
    }
    return {};
}

/// Enters a rule that has its place.
[[gnu::always_inline]] inline FlowResult<rte_flow*> FlowTable::Impl::enter(OwnedRule rule) {
    prepare_reports(*rule);
    if (!running) {
        if (auto there = check_targets(*rule); !there) return tl::unexpected(there.error());
    } else if (auto installed = install(*rule); !installed) {
        return from_device(installed.error());
    }
    rte_flow* const created = rule.get();
    rules.add(std::move(rule));
    watch_age(*created);
    return created;
}

/// Hands a refusal to the caller.
int report(const FlowError& refused, rte_flow_error* error);
/// The refusal of a handle that is not one of this port's.
[[nodiscard]] FlowError unknown(const char* what, const void* handle, int code = EINVAL,
                                rte_flow_error_type type = RTE_FLOW_ERROR_TYPE_HANDLE);
/// Packets and bytes since the counter was made or last reset; resets it if the result asks for
/// that.
[[nodiscard]] FlowResult<void> query_counter(FlowCounter& counter, rte_flow_query_count& result);
[[nodiscard]] tl::unexpected<FlowError> same_match(const Pattern& pattern);

} // namespace rawqp
