// SPDX-License-Identifier: BSD-3-Clause
// From an application's request to the device rules that implement it.
#include "drivers/net/rawqp/ethdev/flow/items.hpp"
#include "drivers/net/rawqp/ethdev/flow/table_impl.hpp"
#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"

#include <algorithm>

namespace rawqp {

namespace {

FlowResult<void> check_attributes(const rte_flow_attr* attr) {
    if (attr == nullptr)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR, nullptr, "no attributes given");
    if (attr->transfer)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_TRANSFER, attr,
                      "transfer rules are not supported: the port has no embedded switch");
    if (attr->ingress == attr->egress)
        return refuse(EINVAL, RTE_FLOW_ERROR_TYPE_ATTR_INGRESS, attr,
                      "the rule has {}: set ingress or egress",
                      attr->ingress ? "two directions" : "no direction");
    if (attr->group != 0 && attr->priority >= GroupTable::kPriorities)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
                      "priority {}: the largest in a group above 0 is {}",
                      static_cast<uint32_t>(attr->priority), GroupTable::kPriorities - 1);
    if (attr->group == 0 && attr->egress && attr->priority >= SteeringLevels::kMaxPriorities)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
                      "priority {}: the largest of an egress rule of group 0 is {}",
                      static_cast<uint32_t>(attr->priority), SteeringLevels::kMaxPriorities - 1);
    return {};
}

/// Metadata is what earlier rules have set, or the application for what it sends.
FlowResult<void> check_metadata(const Pattern& pattern, const RulePosition& position,
                                const rte_flow_item* items) {
    for (const Layer& layer : pattern.all_metadata()) {
        const rte_flow_item* const item = items + layer.item;
        if (position.group == 0 && layer.protocol != Protocol::sent_meta)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, item,
                          "item {}: no rule has set it before those of group 0: match it in a "
                          "group that packets come to by a jump",
                          traits_of(layer.protocol).name);
        if (position.egress && layer.protocol == Protocol::mark)
            return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM, item,
                          "item mark: rules mark received packets only: use tags or metadata in "
                          "egress rules");
    }
    return {};
}

} // namespace

tl::unexpected<FlowError> same_match(const Pattern& pattern) {
    return refuse(EEXIST, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                  "a rule of the same priority matches {} with the same values already: "
                  "destroy it first or use another priority",
                  pattern.names());
}

namespace {
/// One of the application's rules has fewer headers.
tl::unexpected<FlowError> same_class(const Pattern& pattern) {
    return refuse(EEXIST, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                  "the types of an rss make a rule of its own of {}, and a rule of the same "
                  "priority matches {} with the same values already: give one of them another "
                  "priority",
                  pattern.names(), pattern.names());
}
} // namespace

/// For a rule that takes over from none: prefers the other turn to another level.
uint8_t FlowTable::Impl::turn_in_use(uint32_t priority, TrafficClass traffic) const {
    return levels.uses(place_of(priority, traffic, 1)) &&
                   !levels.uses(place_of(priority, traffic, 0))
               ? 1
               : 0;
}

/// If the replaced rule is in the device, the new one needs the other turn.
FlowResult<void> FlowTable::Impl::find_room(rte_flow& rule, const rte_flow* replaced) const {
    for (RulePart& part : rule.parts()) {
        const rte_flow* const known = rules.find(part);
        if (known != nullptr && known != replaced) {
            const auto others = known->parts();
            const auto other = std::ranges::find_if(
                others, [&](const RulePart& each) { return each.matches_like(part); });
            return other->whole == part.whole ? same_match(part.pattern())
                                              : same_class(part.pattern());
        }
        if (rule.egress) continue;
        if (rule.has_levels()) part.turn = turn_in_use(rule.priority, part.traffic);
        if (replaced == nullptr) continue;
        const auto parts = replaced->parts();
        const auto same = std::ranges::find_if(
            parts, [&](const RulePart& each) { return each.matches_like(part); });
        if (same != parts.end()) part.turn = same->turn == 0;
    }
    if (rule.one_level) { // through the part that leads to its table
        uint8_t turn = 0;
        for (RulePart& part : Backwards(rule.parts())) {
            if (part.whole) turn = part.turn;
            part.turn = turn;
        }
    }
    return {};
}

/// Types of an rss that fit none of the packets are ignored, as rte_flow's guide says: these go to
/// the first of its queues.
void FlowTable::Impl::add_parts(Plan& plan, const Pattern& pattern, const FlowActions& wanted) {
    if (wanted.table.empty()) {
        RssTargetRef target;
        if (!plan.egress && !plan.jumps && !plan.passes && !plan.to_kernel)
            target = steering.qps().target(wanted.queue);
        plan.parts.push_back({class_of(pattern), pattern, std::move(target), true, nullptr});
        return;
    }
    for (const ClassRule& split : split_by_class(pattern, wanted.rss_types, wanted.depth_of_hash()))
        plan.parts.push_back({split.traffic, split.pattern,
                              steering.qps().target(wanted.destination(split.hash_fields)), false,
                              nullptr});
    plan.parts.back().whole = true; // the classes of a pattern precede it
}

namespace {
/// No engine can express the rule, and no header is the reason.
tl::unexpected<FlowError> refuse_lack(const Plan& plan, const LackText& lack) {
    const auto is = [&](rte_flow_error_type type, const void* cause) {
        return refuse(ENOTSUP, type, cause, "{}", lack.what);
    };
    switch (lack.concern) {
    case Concern::none: return is(RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr);
    case Concern::group: return is(RTE_FLOW_ERROR_TYPE_ATTR_GROUP, plan.attr);
    case Concern::direction: return is(RTE_FLOW_ERROR_TYPE_ATTR_EGRESS, plan.attr);
    default: return is(RTE_FLOW_ERROR_TYPE_ACTION, plan.named[lack.concern]);
    }
}
} // namespace

FlowResult<void> FlowTable::Impl::choose_engines(Plan& plan, const rte_flow_item* pattern) {
    SteeringRequest request;
    plan.fill(request);
    for (PlannedPart& part : plan.parts) {
        request.pattern = part.pattern;
        request.target = part.target;
        if (plan.one_level) request.class_depth = depth_of(part.traffic);
        request.leads = part.whole;
        const auto engine = steering.engine_for(request);
        part.engine = engine.value_or(nullptr);
        if (engine) continue;
        const LackText* const lack = &engine.error();
        if (lack->layer == nullptr) return refuse_lack(plan, *lack);
        const uint8_t number = lack->layer->item;
        const bool known = pattern != nullptr && number != Layer::kNone;
        const rte_flow_item* const item = known ? pattern + number : pattern;
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ITEM_MASK, item, "item {}: {}",
                      traits_of(lack->layer->protocol).name, lack->what);
    }
    return {};
}

SampleRef FlowTable::Impl::make_sample(const SampleActions& wanted, Plan& plan,
                                       const rte_flow* replaced) {
    Sample sample{wanted.ratio, steering.qps().target({.queues = {wanted.queue}}), wanted.tag,
                  wanted.shared_counter};
    if (wanted.count != nullptr && !sample.counter) {
        const bool goes_on = replaced != nullptr && replaced->counts_copies();
        sample.counter = plan.counter = goes_on ? replaced->counter : steering.make_counter();
        plan.counts = true;
    }
    return make_ref<const Sample>(std::move(sample));
}

Plan FlowTable::Impl::plan(const RulePosition& position, std::span<const Pattern> patterns,
                           const FlowActions& wanted, const rte_flow* replaced) {
    Plan plan;
    static_cast<RulePosition&>(plan) = position;
    plan.jumps = wanted.jump.has_value();
    plan.jump = wanted.jump.value_or(0);
    plan.passes = wanted.passes;
    plan.to_kernel = wanted.to_kernel;
    plan.drop = wanted.drop;
    if (!wanted.edits.empty()) plan.edits = make_ref<const Edits>(wanted.edits);
    plan.tag = wanted.tag;
    plan.named = wanted.named;
    plan.counts = wanted.count != nullptr;
    plan.age = wanted.shared_age;
    plan.counter = plan.age && !plan.counts ? plan.age->counter() : wanted.shared_counter;
    if ((plan.counts || wanted.age != nullptr) && !plan.counter) {
        // A rule that keeps counting continues from its present count.
        const bool own = replaced != nullptr && replaced->counter && !replaced->counter->shared() &&
                         !replaced->counts_copies();
        plan.counter = own ? replaced->counter : steering.make_counter();
    }
    if (wanted.age != nullptr && !plan.age)
        plan.age = make_ref<FlowAge>(wanted.counts_passed ? steering.make_counter() : plan.counter,
                                     *static_cast<const rte_flow_action_age*>(wanted.age->conf),
                                     FlowAge::Clock::now());
    plan.rss = wanted.shared_rss;
    plan.meter = wanted.meter;
    plan.counts_passed = wanted.counts_passed;
    if (wanted.sample) plan.sample = make_sample(*wanted.sample, plan, replaced);
    for (const Pattern& each : patterns)
        add_parts(plan, each, wanted);
    return plan;
}

FlowResult<Plan> FlowTable::Impl::outline(const rte_flow_attr* attr, const rte_flow_item* pattern,
                                          const rte_flow_action* actions) {
    if (queues.count() == 0 && (attr == nullptr || !attr->egress))
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "the port is configured with no Rx queue, which every ingress rule "
                      "needs, also one that drops: verbs ties rules to queues");
    if (auto ok = check_attributes(attr); !ok) return tl::unexpected(ok.error());
    auto patterns = translate_pattern(pattern, attr->egress != 0);
    if (!patterns) return tl::unexpected(patterns.error());
    const RulePosition position{attr->group, attr->priority, attr->egress != 0};
    if (auto ok = check_metadata(patterns->front(), position, pattern); !ok)
        return tl::unexpected(ok.error());
    auto wanted = translate_actions(actions, scope(*patterns, position));
    if (!wanted) return tl::unexpected(wanted.error());
    Plan planned = plan(position, *patterns, *wanted, nullptr);
    planned.attr = attr;
    if (auto ok = choose_engines(planned, pattern); !ok) return tl::unexpected(ok.error());
    return planned;
}

std::vector<Pattern> Plan::whole_patterns() const {
    std::vector<Pattern> patterns;
    for (const PlannedPart& part : parts)
        if (part.whole) patterns.push_back(part.pattern);
    return patterns;
}

FlowResult<Plan> FlowTable::Impl::translate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                                            const rte_flow_action* actions) {
    auto planned = outline(attr, pattern, actions);
    if (!planned) return planned;
    if (auto ok = reserve_ports(*planned, pattern); !ok) return tl::unexpected(ok.error());
    return planned;
}

/// Before the Rx queues are set up the device cannot be asked: start() will look again.
SteeringLevels FlowTable::Impl::known_levels() const {
    if (const auto& known = steering.known_levels()) return *known;
    return steering.levels().value_or(SteeringLevels{});
}

/// Rules with places that are not in a list yet are to take over from others.
PlaceTerms FlowTable::Impl::terms_of(const rte_flow& rule, bool replaces) const {
    PlaceTerms terms{known_levels().classes() > 1 && rule.ranked()};
    if (replaces) terms.apart.push_back(rule.priority);
    for (const rte_flow* const other : coming)
        terms.apart.push_back(other->priority);
    return terms;
}

bool FlowTable::Impl::has_levels_for(const rte_flow& rule, bool replaces, size_t spared) const {
    if (!rule.has_levels()) return true;
    const PlaceTerms terms = terms_of(rule, replaces);
    std::vector<RulePlace> places;
    for (const RulePart& part : rule.parts())
        if (part.whole || !rule.one_level)
            places.push_back(place_of(rule.priority, part.traffic, part.turn));
    if (!terms.ranked &&
        std::ranges::all_of(places, [&](const RulePlace& place) { return levels.uses(place); }))
        return true;
    const auto [wanted, priorities] = levels.need(places, terms);
    const size_t others = spared > priorities ? spared - priorities : 0;
    return wanted + others <= known_levels().flow_levels();
}

tl::unexpected<FlowError> FlowTable::Impl::lacks_levels(const rte_flow& rule,
                                                        const rte_flow_attr* attr) const {
    const uint16_t most = known_levels().flow_levels();
    if (attr == nullptr)
        return refuse(ENOSPC, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "all {} steering priorities that the device has for rules are in use, and a "
                      "rule that takes over from another one needs one beside that: use fewer "
                      "rte_flow priorities, or destroy the rule and create it anew",
                      most);
    return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, attr,
                  "priority {}: the device has {} steering priorities for rules, and other "
                  "rte_flow priorities use them{}: use one of those, or a group above 0",
                  rule.priority, most,
                  rule.ranked() ? " (an rss of several traffic classes needs one for those with "
                                  "ports, one for those with IP and one for others)"
                                : "");
}

/// An rss of several classes leaves levels for other priorities if a table can tell its classes
/// apart.
FlowResult<void> FlowTable::Impl::choose_levels(Plan& plan, OwnedRule& rule,
                                                const rte_flow_attr* attr,
                                                const rte_flow* replaced) {
    constexpr size_t kPriorities = 8; ///< that an application may count on
    const bool replaces = replaced != nullptr;
    if (has_levels_for(*rule, replaces, rule->ranked() ? kPriorities : 0)) return {};
    if (rule->ranked() && put_at_one_level(plan)) {
        rule.reset(rte_flow::make(plan, masks));
        if (auto ok = find_room(*rule, replaced); !ok) return ok;
    }
    if (has_levels_for(*rule, replaces, 0)) return {};
    return lacks_levels(*rule, attr);
}

bool FlowTable::Impl::put_at_one_level(Plan& plan) {
    Plan other = plan;
    other.one_level = true;
    if (!choose_engines(other, nullptr)) return false;
    plan = std::move(other);
    return true;
}

FlowResult<OwnedRule> FlowTable::Impl::make_rule(Plan& plan, const rte_flow_attr* attr,
                                                 const rte_flow* replaced) {
    plan.one_level = false; // it may come from a replaced rule
    OwnedRule rule(rte_flow::make(plan, masks));
    if (auto ok = find_room(*rule, replaced); !ok) return tl::unexpected(ok.error());
    if (auto ok = choose_levels(plan, rule, attr, replaced); !ok) return tl::unexpected(ok.error());
    if (auto ok = choose_stage(*rule, attr); !ok) return tl::unexpected(ok.error());
    return rule;
}

} // namespace rawqp
