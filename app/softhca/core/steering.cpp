// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/steering.hpp"

#include <algorithm>

namespace softhca::core {
namespace {

/// What all flows of a rule ask for together.
void combine(Rule& rule) {
    rule.drop = false;
    rule.tag = 0;
    rule.destinations.clear();
    for (const Flow* const flow : rule.flows) {
        rule.drop |= flow->drop;
        if (flow->tag) rule.tag = *flow->tag;
        for (Tir* const tir : flow->tirs)
            if (std::ranges::find(rule.destinations, tir) == rule.destinations.end())
                rule.destinations.push_back(tir);
    }
}

} // namespace

Steering::Tables::iterator Steering::find_table(const Flow& flow) {
    const KeyMask mask(flow.mask);
    return std::ranges::find_if(domains_[static_cast<size_t>(flow.domain)], [&](const auto& table) {
        return table->priority() == flow.priority && table->mask() == mask;
    });
}

Outcome<void> Steering::insert(const Flow& flow) {
    Tables& tables = domains_[static_cast<size_t>(flow.domain)];
    auto table = find_table(flow);
    if (table == tables.end()) {
        const auto behind = std::ranges::upper_bound(
            tables, flow.priority, {}, [](const auto& other) { return other->priority(); });
        table = tables.insert(behind, std::make_unique<RuleTable>(flow.priority, flow.mask));
    }
    Rule* rule = (*table)->find(flow.value);
    if (!rule) {
        rule = &(*table)->insert(flow.value);
    } else if (rule->drop != flow.drop || (flow.tag && *flow.tag != rule->tag)) {
        return tl::unexpected(Status::bad_parameter);
    }
    rule->flows.push_back(&flow);
    combine(*rule);
    return {};
}

void Steering::erase(const Flow& flow) {
    const auto table = find_table(flow);
    Rule* const rule = (*table)->find(flow.value);
    std::erase(rule->flows, &flow);
    combine(*rule);
    if (!rule->flows.empty()) return;
    (*table)->erase(flow.value);
    if ((*table)->empty()) domains_[static_cast<size_t>(flow.domain)].erase(table);
}

} // namespace softhca::core
