// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>
#include <memory>
#include <new>

namespace rawqp {

std::string key_of(const RulePosition& position, const Pattern& pattern) {
    const uint32_t head[] = {position.group, position.priority, position.egress};
    std::string key(sizeof head + pattern.bytes(), '\0');
    std::memcpy(key.data(), head, sizeof head);
    pattern.write(reinterpret_cast<uint8_t*>(key.data()) + sizeof head);
    return key;
}

Pattern RulePart::pattern() const {
    Pattern pattern = mask->headers();
    mask->put(values().data(), pattern);
    return pattern;
}

std::optional<uint16_t> RulePart::class_depth() const {
    return rule->one_level ? std::optional(depth_of(traffic)) : std::nullopt;
}

/// What it passes packets on to is in use, too.
uint8_t RulePart::stage() const {
    if (!use || rule->has_levels()) return 0;
    return static_cast<uint8_t>(GroupStages::number_of(use) - (rule->passes ? 1 : 0));
}

bool RulePart::matches_like(const RulePart& other) const {
    return mask == other.mask && static_cast<const RulePosition&>(*rule) == *other.rule &&
           std::ranges::equal(values(), other.values());
}

void DestroyRule::operator()(rte_flow* rule) const { rte_flow::destroy(rule); }

namespace {

/// A product's high bits depend on all bits of the word.
void add_to_hash(uint64_t& hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
}

uint64_t hash_of(const RulePart& part) {
    const RulePosition& position = *part.rule;
    uint64_t hash = reinterpret_cast<uintptr_t>(part.mask.get());
    add_to_hash(hash, uint64_t{position.group} << 32 | position.priority << 1 | position.egress);
    for (std::span values = part.values(); !values.empty();
         values = values.subspan(PatternMask::kWord)) {
        uint64_t word;
        std::memcpy(&word, values.data(), sizeof word);
        add_to_hash(hash, word);
    }
    return hash;
}

} // namespace

void RuleTerms::fill(SteeringRequest& request) const {
    request.strict_level = true;
    request.group = group;
    request.jump = jumps ? std::optional(jump) : std::nullopt;
    request.passes = passes;
    request.to_kernel = to_kernel;
    request.egress = egress;
    request.edits = edits;
    request.drop = drop;
    request.tag = tag;
    request.sample = sample;
    request.meter = meter;
    request.counts_passed = counts_passed;
    request.counter = counts_copies() ? nullptr : counter;
    // Packets that the meter drops keep the rule from ageing: they match it.
    request.matched = counts_passed && age ? age->counter() : nullptr;
}

const SteeringRequest& RuleRequest::of(const RulePart& part, uint16_t level) {
    part.rule->fill(request_);
    request_.level = level;
    request_.stage = part.stage();
    request_.target = part.target;
    request_.engine = part.engine;
    request_.class_depth = part.class_depth();
    request_.leads = part.whole;
    if (mask_ != part.mask) {
        mask_ = part.mask;
        request_.pattern = mask_->headers();
    }
    mask_->put(part.values().data(), request_.pattern);
    return request_;
}

} // namespace rawqp

using rawqp::RulePart;
static_assert(sizeof(rte_flow) % alignof(RulePart) == 0, "the parts follow the rule");
static_assert(sizeof(rte_flow) + sizeof(RulePart) <= 256, "to write a rule is what it costs");

template <class Like>
uint8_t* rte_flow::add(const Like& like, rawqp::PatternMaskRef mask, uint8_t* values) {
    auto* const part = reinterpret_cast<RulePart*>(this + 1) + part_count_++;
    const auto at = static_cast<size_t>(values - reinterpret_cast<uint8_t*>(part));
    new (part) RulePart(*this, like, std::move(mask), at);
    return values;
}

rte_flow* rte_flow::make(const rawqp::Plan& plan, rawqp::PatternMasks& masks) {
    std::vector<rawqp::PatternMaskRef> of_parts;
    size_t bytes = sizeof(rte_flow) + plan.parts.size() * sizeof(RulePart);
    const size_t values_at = bytes;
    for (const rawqp::PlannedPart& part : plan.parts)
        bytes += of_parts.emplace_back(masks.of(part.pattern))->bytes();
    auto* const rule = new (::operator new(bytes)) rte_flow(plan, bytes, nullptr);
    uint8_t* values = reinterpret_cast<uint8_t*>(rule) + values_at;
    for (size_t i = 0; i < plan.parts.size(); ++i) {
        const rawqp::PlannedPart& part = plan.parts.begin()[i];
        of_parts[i]->take(part.pattern, rule->add(part, of_parts[i], values));
        values += of_parts[i]->bytes();
    }
    rule->hash();
    return rule;
}

rte_flow* rte_flow::make(const rte_flow& model, void* memory, rawqp::RuleMemory& owner) {
    auto* const rule = new (memory) rte_flow(model, model.bytes(), &owner);
    auto* values = reinterpret_cast<uint8_t*>(rule + 1) + model.parts().size_bytes();
    for (const RulePart& part : model.parts())
        values = std::ranges::copy(part.values(), rule->add(part, part.mask, values)).out;
    return rule;
}

void rte_flow::add_values(size_t part, std::span<const rawqp::PatternMask::Source> sources,
                          const uint8_t* layer) {
    RulePart& to = parts()[part];
    auto* const values = reinterpret_cast<uint8_t*>(&to) + to.values_at * rawqp::PatternMask::kWord;
    for (const auto& [byte, mask, value] : sources)
        values[value] |= layer[byte] & mask;
}

void rte_flow::hash() {
    for (RulePart& part : parts())
        part.hash = static_cast<uint32_t>(rawqp::hash_of(part));
}

namespace {

/// What leads to a table is removed before its entries.
void destroy_parts(rte_flow& rule) {
    const auto parts = rule.parts();
    std::destroy(parts.rbegin(), parts.rend());
}

} // namespace

void rte_flow::destroy(rte_flow* rule) {
    rawqp::RuleMemory* const owner = rule->owner_;
    const size_t bytes = rule->bytes();
    destroy_parts(*rule);
    rule->~rte_flow();
    if (owner != nullptr)
        owner->release(rule, bytes);
    else
        ::operator delete(rule);
}

void rte_flow::become(rawqp::OwnedRule other) {
    destroy_parts(*this);
    static_cast<rawqp::RuleTerms&>(*this) = static_cast<rawqp::RuleTerms&&>(*other);
    part_count_ = std::exchange(other->part_count_, uint16_t{0});
    donor_ = other->donor_ ? std::move(other->donor_) : std::move(other);
    for (RulePart& part : parts())
        part.rule = this;
}

std::vector<rawqp::Pattern> rte_flow::whole_patterns() const {
    std::vector<rawqp::Pattern> patterns;
    for (const RulePart& part : parts())
        if (part.whole) patterns.push_back(part.pattern());
    return patterns;
}

bool rte_flow::ranked() const {
    const auto of_rule = parts();
    return !one_level && std::ranges::any_of(of_rule, [&](const RulePart& part) {
        return rawqp::depth_of(part.traffic) != rawqp::depth_of(of_rule.front().traffic);
    });
}

namespace {

/// Each once, in the order of the table.
std::string queues_text(std::vector<uint16_t> queues) {
    for (auto at = queues.begin(); at != queues.end(); ++at)
        queues.erase(std::remove(at + 1, queues.end(), *at), queues.end());
    return fmt::format("{}", fmt::join(queues, " "));
}

std::string destination_text(const rte_flow& rule, const RulePart& part) {
    if (rule.drop) return "drop";
    if (rule.jumps) return fmt::format("jump to group {}", rule.jump);
    if (rule.passes) return "pass on to lower priorities";
    if (rule.to_kernel) return "send to the kernel";
    if (!part.target) return "send";
    const rawqp::RssDestination& to = part.target->destination;
    if (to.hash_fields == 0) return fmt::format("queue {}", to.queues.front());
    return fmt::format("rss to queues {}, table of {}, by {}", queues_text(to.queues),
                       to.queues.size(), rawqp::hash_field_names(to.hash_fields));
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
        const std::string of_group = group == 0 ? "" : fmt::format(" group {}", group);
        lines +=
            fmt::format("{}{} priority {}: {}: {}{}{}{}", egress ? "egress" : "ingress", of_group,
                        priority, part.pattern().text(), destination_text(*this, part),
                        tag_text(tag), counts ? ", count" : "", age ? ", age" : "");
        if (meter) lines += ", metered";
        if (sample)
            lines += fmt::format(", a copy of one in {} to queue {}{}", sample->ratio,
                                 sample->target->destination.queues.front(), tag_text(sample->tag));
        if (edits) lines += edits->text();
        lines += part.installed.engine != nullptr
                     ? fmt::format(" (by {})\n", part.installed.engine->name())
                     : " (not installed: the port is stopped)\n";
    }
    return lines;
}
