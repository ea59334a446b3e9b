// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/steering.hpp"

#include <algorithm>

namespace softhca::core {
namespace {

template <class T> void add_new(std::vector<T*>& all, const std::vector<T*>& more) {
    for (T* const one : more)
        if (std::ranges::find(all, one) == all.end()) all.push_back(one);
}

/// Combines what all flows of a rule ask for.
void combine(Rule& rule) {
    static_cast<FlowActions&>(rule) = {};
    for (const Flow* const flow : rule.flows) {
        rule.drop |= flow->drop;
        rule.pass_on |= flow->pass_on;
        rule.default_miss |= flow->default_miss;
        rule.send |= flow->send;
        if (flow->tag) rule.tag = flow->tag;
        rule.rewrite = flow->rewrite;
        add_new(rule.tirs, flow->tirs);
        add_new(rule.tables, flow->tables);
        add_new(rule.counters, flow->counters);
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
        const auto place = std::ranges::upper_bound(
            tables, flow.priority, {}, [](const auto& other) { return other->priority(); });
        table = tables.insert(place, std::make_unique<RuleTable>(flow.priority, flow.mask));
        look_at_masks();
    }
    Rule* rule = (*table)->find(flow.value);
    if (!rule) {
        rule = &(*table)->insert(flow.value);
    } else if (rule->drop != flow.drop || rule->pass_on != flow.pass_on ||
               rule->default_miss != flow.default_miss || rule->rewrite != flow.rewrite ||
               (flow.tag && *flow.tag != rule->tag.value_or(0))) {
        return tl::unexpected(Status::exists);
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
    if (!(*table)->empty()) return;
    gone_ += (*table)->counts();
    domains_[static_cast<size_t>(flow.domain)].erase(table);
    look_at_masks();
}

void Steering::look_at_masks() {
    asks_integrity_ = asks_numbers_ = false;
    for (const Tables& domain : domains_)
        for (const auto& table : domain) {
            asks_integrity_ |= table->mask().asks_integrity();
            asks_numbers_ |= table->mask().asks_numbers();
        }
}

LookupCounts Steering::counts() const {
    LookupCounts all = gone_;
    for (const Tables& domain : domains_)
        for (const auto& table : domain)
            all += table->counts();
    return all;
}

} // namespace softhca::core
