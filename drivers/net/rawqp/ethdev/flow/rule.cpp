// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"

#include <cstring>
#include <functional>
#include <new>

namespace rawqp {

std::string key_of(uint32_t priority, const Pattern& pattern) {
    std::vector<uint8_t> bytes(sizeof priority);
    std::memcpy(bytes.data(), &priority, sizeof priority);
    pattern.append_to(bytes);
    return {bytes.begin(), bytes.end()};
}

uint64_t hash_of(std::string_view key) { return std::hash<std::string_view>{}(key); }

SteeringRequest Plan::request(const PlannedPart& part, const SteeringLevels& levels) const {
    SteeringRequest request;
    request.strict_level = true;
    request.level = levels.flow_level(priority, part.traffic);
    request.pattern = part.pattern;
    request.target = part.target;
    request.drop = drop;
    request.tag = tag;
    request.counted = count != nullptr;
    return request;
}

} // namespace rawqp

using rawqp::RulePart;
static_assert(sizeof(rte_flow) % alignof(RulePart) == 0, "the parts follow the rule");

rte_flow* rte_flow::make(const rawqp::Plan& plan, rawqp::Counters counters) {
    std::vector<std::string> keys;
    size_t bytes = sizeof(rte_flow) + plan.parts.size() * sizeof(RulePart);
    for (const rawqp::PlannedPart& part : plan.parts)
        bytes += keys.emplace_back(rawqp::key_of(plan.priority, part.pattern)).size();

    auto* const memory = static_cast<char*>(::operator new(bytes));
    auto* const rule = new (memory) rte_flow;
    rule->priority = plan.priority;
    rule->tag = plan.tag;
    rule->drop = plan.drop;
    rule->counters = std::move(counters);
    auto* part = reinterpret_cast<RulePart*>(rule + 1);
    auto* key = reinterpret_cast<char*>(part + plan.parts.size());
    for (size_t i = 0; i < plan.parts.size(); ++i, ++part) {
        std::memcpy(key, keys[i].data(), keys[i].size());
        new (part) RulePart{rule,
                            {key, keys[i].size()},
                            rawqp::hash_of(keys[i]),
                            plan.parts[i].traffic,
                            plan.parts[i].target,
                            {}};
        key += keys[i].size();
        ++rule->part_count;
    }
    return rule;
}

void rte_flow::destroy(rte_flow* rule) {
    for (RulePart& part : rule->parts())
        part.~RulePart();
    rule->~rte_flow();
    ::operator delete(rule);
}

rawqp::SteeringRequest rte_flow::request(const RulePart& part,
                                         const rawqp::SteeringLevels& levels) const {
    rawqp::Plan plan;
    plan.priority = priority;
    plan.drop = drop;
    plan.tag = tag;
    const auto* const bytes = reinterpret_cast<const uint8_t*>(part.key.data());
    const std::span<const uint8_t> key(bytes, part.key.size());
    rawqp::SteeringRequest request = plan.request(
        {part.traffic, rawqp::Pattern::from_bytes(key.subspan(sizeof priority)), part.target},
        levels);
    request.counters = counters.get();
    request.counted = request.counters != nullptr;
    return request;
}
