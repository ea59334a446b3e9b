// SPDX-License-Identifier: BSD-3-Clause
// Which stage of its group a rule is in, and how packets get to the next one, see GroupStages.
#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"
#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"

#include <algorithm>

namespace rawqp {

namespace {

GroupStages::Group group_of(const RulePosition& position) {
    return {position.group, position.egress};
}

} // namespace

size_t FlowTable::Impl::count_behind(const RulePosition& position,
                                     std::optional<uint32_t> end) const {
    const auto is_behind = [&](const RulePosition& other) {
        return group_of(other) == group_of(position) && other.priority > position.priority &&
               (!end || other.priority <= *end);
    };
    size_t count = 0;
    for (const rte_flow* rule = rules.first(); rule != nullptr; rule = rule->after)
        count += is_behind(*rule) ? 1 : 0;
    for (const auto& table : tables) // others lead wherever the stages are then
        count += std::ranges::any_of(table->recipes, [&](const Recipe& recipe) {
            return recipe.model->passes && is_behind(*recipe.model);
        });
    return count;
}

/// A rule of the last place of a stage, for what matches no other one.
Result<SteeringRule> FlowTable::Impl::lead_to(const GroupStages::Stage& stage) {
    SteeringRequest way;
    way.group = stage.group.number;
    way.stage = static_cast<uint8_t>(stage.number - 1);
    way.level = GroupTable::kLastPlace;
    way.strict_level = true;
    way.egress = stage.group.egress;
    way.passes = true;
    return steering.install(way);
}

Result<void> FlowTable::Impl::lead_to_stages() {
    Result<void> done;
    stages.for_each([&](GroupStages::Stage& stage) {
        if (!done) return;
        auto way = lead_to(stage);
        if (way)
            stage.way = std::move(*way);
        else
            done = tl::unexpected(std::move(way.error()));
    });
    return done;
}

/// The rules of lower priority would have to move there one by one, and packets meet them in their
/// order meanwhile: so there must be none yet.
FlowResult<UseRef> FlowTable::Impl::open_stage(const RulePosition& position,
                                               const rte_flow_attr* attr) {
    const GroupStages::Group group = group_of(position);
    const auto next = static_cast<uint8_t>(stages.stage_of(group, position.priority) + 1);
    GroupStages::Stage* const known = stages.find(group, next);
    if (known != nullptr && known->after == position.priority) return UseRef(*known);
    const size_t behind =
        count_behind(position, known != nullptr ? std::optional(known->after) : std::nullopt);
    if (behind != 0)
        return refuse(
            ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
            "action passthru: {} {} of lower priority there already, in the table of this "
            "rule, and would have to be behind it: create rules that pass packets on "
            "before those of lower priority, or give this one a priority at which others "
            "pass on",
            behind, behind == 1 ? "rule is" : "rules are");
    if (known != nullptr) { // there is nothing in between
        known->after = position.priority;
        return UseRef(*known);
    }
    if (position.group + next > kLastStage)
        return refuse(
            ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
            "action passthru: the rules of lower priority are in a table at a later level "
            "of the device, and group {} has {} such levels, which other priorities with "
            "passthru use: use one of those, or a lower group",
            position.group, kLastStage - position.group);
    GroupStages::Stage& opened = stages.open(group, position.priority);
    UseRef use(opened);
    if (running) {
        auto way = lead_to(opened);
        if (!way) return from_device(way.error());
        opened.way = std::move(*way);
    }
    return use;
}

FlowResult<void> FlowTable::Impl::choose_stage(rte_flow& rule, const rte_flow_attr* attr) {
    if (rule.group == 0 || (!rule.passes && stages.empty())) return {};
    FlowResult<UseRef> opened;
    if (rule.passes && !(opened = open_stage(rule, attr))) return tl::unexpected(opened.error());
    const int own = stages.stage_of(group_of(rule), rule.priority);
    GroupStages::Stage* const needed =
        stages.find(group_of(rule), static_cast<uint8_t>(own + (rule.passes ? 1 : 0)));
    for (RulePart& part : rule.parts())
        part.use = needed != nullptr ? UseRef(*needed) : UseRef();
    return {};
}

/// For rules that a table will make of this model, if no stage comes or goes.
uint8_t FlowTable::Impl::likely_stage(const rte_flow& model) const {
    return stages.stage_of(group_of(model), model.priority);
}

} // namespace rawqp
