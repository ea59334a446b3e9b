// SPDX-License-Identifier: BSD-3-Clause
// How groups above 0 are served, see GroupWay. Software steering installs a rule faster but can
// express less. So it comes with the first template table of such a group, and goes with the last
// one, or when something is requested that only commands can express. The existing rules, including
// those of group 0 that lead to groups, are then made anew.
#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>

namespace rawqp {

namespace {

bool of_groups(const RuleTerms& rule) { return !rule.egress && (rule.group != 0 || rule.jumps); }

Plan plan_of(const rte_flow& rule) {
    Plan plan;
    static_cast<RuleTerms&>(plan) = rule;
    for (const RulePart& part : rule.parts())
        plan.parts.push_back({part.traffic, part.pattern(), part.target, part.whole, nullptr});
    return plan;
}

} // namespace

FlowResult<OwnedRule> FlowTable::Impl::make_anew(const rte_flow& rule) {
    Plan plan = plan_of(rule);
    if (auto ok = choose_engines(plan, nullptr); !ok) return tl::unexpected(ok.error());
    return realize(plan, nullptr, &rule);
}

/// Checks each as if the others stayed: once a jump has moved, its priority needs as many levels as
/// before.
FlowResult<void> FlowTable::Impl::check_anew() {
    for (rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after) {
        if (!of_groups(*rule)) continue;
        Plan plan = plan_of(*rule);
        FlowResult<void> done = choose_engines(plan, nullptr);
        if (done)
            if (const auto made = make_rule(plan, nullptr, rule); !made)
                done = tl::unexpected(made.error());
        if (!done)
            return refuse(done.error().code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                          "groups above 0 would have to be served by commands, and a rule that "
                          "stands cannot be made anew for that: {}",
                          done.error().what);
    }
    return {};
}

/// Jumps in group 0 have levels, for which others may have to make room: each replaces the former
/// one before the next is made.
FlowResult<void> FlowTable::Impl::make_jumps_anew(size_t& count) {
    const size_t most = std::exchange(count, 0);
    for (rte_flow* rule = rules.first(); rule != nullptr && count < most; rule = rule->after) {
        if (!of_groups(*rule) || rule->group != 0) continue;
        auto fresh = make_anew(*rule);
        if (!fresh) return tl::unexpected(fresh.error());
        rules.replace(*rule, std::move(*fresh));
        ++count;
    }
    return {};
}

/// While jumps are redirected from the former rules to the fresh ones, both are installed, so that
/// a packet meets one of them.
FlowResult<void> FlowTable::Impl::serve_groups_by(GroupWay way) {
    const GroupWay former = steering.way();
    steering.set_way(way);
    shapes.clear();
    std::vector<std::pair<rte_flow*, OwnedRule>> fresh;
    FlowResult<void> done;
    for (rte_flow* rule = rules.first(); rule != nullptr && done; rule = rule->after) {
        if (!of_groups(*rule) || rule->group == 0) continue;
        if (auto made = make_anew(*rule))
            fresh.emplace_back(rule, std::move(*made));
        else
            done = tl::unexpected(made.error());
    }
    std::vector<std::pair<GroupStages::Stage*, SteeringRule>> ways;
    stages.for_each([&](GroupStages::Stage& stage) {
        if (!running || stage.group.egress || !done) return;
        if (auto way = lead_to(stage))
            ways.emplace_back(&stage, std::move(*way));
        else
            done = from_device(way.error());
    });
    if (done) done = settle();
    size_t jumps = SIZE_MAX;
    if (done && !(done = make_jumps_anew(jumps))) {
        steering.set_way(former);
        if (auto back = make_jumps_anew(jumps); !back)
            RAWQP_LOG(ERR, "rules that jump to groups lead to no rules: %s",
                      back.error().what.c_str());
    }
    if (!done) {
        steering.set_way(former);
        return done;
    }
    for (auto& [rule, successor] : fresh)
        rules.replace(*rule, std::move(successor));
    for (auto& [stage, successor] : ways)
        stage->way = std::move(successor);
    for (const auto& table : tables)
        choose_engines(*table);
    RAWQP_LOG(INFO, "groups above 0 are served by %s, %zu rules of them were made anew",
              way == GroupWay::software ? "software steering" : "commands", fresh.size());
    return settle();
}

/// For future rules: a request whose engine is not in charge of it would be examined again each
/// time.
void FlowTable::Impl::choose_engines(rte_flow_template_table& table) {
    for (Recipe& recipe : table.recipes)
        for (RulePart& part : recipe.model->parts()) {
            part.engine = steering.engine_for(request.of(part, 0)).value_or(nullptr);
            request.let_go();
        }
    prepare(table);
}

void FlowTable::Impl::prepare(rte_flow_template_table& table) {
    if (table.attributes.group == 0) return; // its rules are commands
    std::vector<PartRef> prepared;           // beside the former ones: most will be the same
    for (const Recipe& recipe : table.recipes)
        for (const RulePart& part : recipe.model->parts()) {
            const uint16_t level = level_of(*recipe.model, part);
            SteeringRequest likely = request.of(part, level);
            request.let_go();
            likely.stage = likely_stage(*recipe.model);
            if (auto kept = steering.prepare(likely, table.slots->count()))
                prepared.push_back(std::move(kept));
        }
    table.prepared = std::move(prepared);
}

void FlowTable::Impl::choose_way(const rte_flow_attr* to_come) {
    const auto of_group = [](const rte_flow_attr& attr) {
        return attr.group != 0 && attr.egress == 0;
    };
    if (to_come != nullptr && !of_group(*to_come)) return;
    if (std::ranges::any_of(tables, [&](const auto& each) { return of_group(each->attributes); }))
        return;
    const GroupWay wanted = to_come != nullptr ? GroupWay::software : GroupWay::commands;
    if (wanted == steering.way() || (to_come != nullptr && !steering.has_software())) return;
    if (auto done = serve_groups_by(wanted); !done)
        RAWQP_LOG(INFO, "groups above 0 are served as before: %s", done.error().what.c_str());
}

FlowResult<void> FlowTable::Impl::settle() {
    if (auto settled = steering.settle(); !settled) return from_device(settled.error());
    return {};
}

void FlowTable::Impl::settle_done(const char* what) {
    if (const auto settled = settle(); !settled)
        RAWQP_LOG(ERR, "%s: %s", what, settled.error().what.c_str());
}

} // namespace rawqp
