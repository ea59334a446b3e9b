// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"

#include <cstring>
#include <functional>
#include <new>

namespace rawqp {

namespace {
/// In front of the pattern's bytes.
struct KeyHead {
    uint32_t priority;
    uint32_t egress;
};
} // namespace

std::string key_of(uint32_t priority, bool egress, const Pattern& pattern) {
    const KeyHead head{priority, egress};
    std::vector<uint8_t> bytes(sizeof head);
    std::memcpy(bytes.data(), &head, sizeof head);
    pattern.append_to(bytes);
    return {bytes.begin(), bytes.end()};
}

Pattern pattern_of(std::string_view key) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(key.data());
    return Pattern::from_bytes(std::span(bytes, key.size()).subspan(sizeof(KeyHead)));
}

uint64_t hash_of(std::string_view key) { return std::hash<std::string_view>{}(key); }

SteeringRequest RuleTerms::request(Pattern pattern, RssTargetRef target, uint16_t level) const {
    SteeringRequest request;
    request.strict_level = true;
    request.egress = egress;
    request.level = level;
    request.edits = edits;
    request.pattern = pattern;
    request.target = std::move(target);
    request.drop = drop;
    request.tag = tag;
    return request;
}

} // namespace rawqp

using rawqp::RulePart;
static_assert(sizeof(rte_flow) % alignof(RulePart) == 0, "the parts follow the rule");

rte_flow* rte_flow::make(const rawqp::Plan& plan, rawqp::Counters counters) {
    std::vector<std::string> keys;
    size_t bytes = sizeof(rte_flow) + plan.parts.size() * sizeof(RulePart);
    for (const rawqp::PlannedPart& part : plan.parts)
        bytes += keys.emplace_back(rawqp::key_of(plan.priority, plan.egress, part.pattern)).size();

    auto* const memory = static_cast<char*>(::operator new(bytes));
    auto* const rule = new (memory) rte_flow;
    static_cast<rawqp::RuleTerms&>(*rule) = plan;
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
                            {},
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

rawqp::SteeringRequest rte_flow::request(const RulePart& part, uint16_t level) const {
    rawqp::SteeringRequest request =
        RuleTerms::request(rawqp::pattern_of(part.key), part.target, level);
    request.counters = counters.get();
    request.counted = request.counters != nullptr;
    return request;
}

namespace {

std::string destination_text(const rte_flow& rule, const RulePart& part) {
    if (rule.drop) return "drop";
    if (!part.target) return "send";
    const rawqp::RssDestination& to = part.target->destination;
    if (to.hash_fields == 0) return fmt::format("queue {}", to.queues.front());
    return fmt::format("rss over {} entries by {}{}", to.queues.size(),
                       rawqp::hash_field_names(to.hash_fields & ~uint64_t{IBV_RX_HASH_INNER}),
                       (to.hash_fields & IBV_RX_HASH_INNER) != 0 ? " inside the tunnel" : "");
}

std::string tag_text(uint32_t tag) {
    return tag == rawqp::kFlowTagNone   ? ""
           : tag == rawqp::kFlowTagFlag ? ", flag"
                                        : fmt::format(", mark {}", rawqp::mark_of_tag(tag));
}

} // namespace

std::string rte_flow::text() {
    std::string lines;
    for (const RulePart& part : parts()) {
        lines += fmt::format("{} priority {}: {}: {}{}{}", egress ? "egress" : "ingress", priority,
                             rawqp::pattern_of(part.key).text(), destination_text(*this, part),
                             tag_text(tag), counters ? ", count" : "");
        if (edits)
            lines += fmt::format(", {} fields rewritten{}", edits->rewrites.size(),
                                 edits->reformat != rawqp::Reformat::none ? ", reformatted" : "");
        lines += part.installed.engine != nullptr
                     ? fmt::format(" (by {})\n", part.installed.engine->name())
                     : " (not installed: the port is stopped)\n";
    }
    return lines;
}
