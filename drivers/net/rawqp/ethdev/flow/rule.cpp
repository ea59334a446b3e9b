// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"

#include "drivers/net/rawqp/ethdev/names.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace rawqp {

namespace {
/// In front of the pattern's bytes.
struct KeyHead {
    uint32_t group;
    uint32_t priority;
    uint32_t egress;
};
} // namespace

namespace {

size_t key_bytes(const Pattern& pattern) { return sizeof(KeyHead) + pattern.bytes(); }

/// Returns what is after the key.
char* write_key(const RulePosition& position, const Pattern& pattern, char* key) {
    const KeyHead head{position.group, position.priority, position.egress};
    std::memcpy(key, &head, sizeof head);
    auto* const rest = reinterpret_cast<uint8_t*>(key) + sizeof head;
    return reinterpret_cast<char*>(pattern.write(rest));
}

} // namespace

std::string key_of(const RulePosition& position, const Pattern& pattern) {
    std::string key(key_bytes(pattern), '\0');
    write_key(position, pattern, key.data());
    return key;
}

std::vector<size_t> value_places(const Pattern& pattern) {
    std::vector<size_t> places;
    size_t at = sizeof(KeyHead);
    for (const Layer& layer : pattern.layers()) {
        places.push_back(at + Pattern::kValueInLayer);
        at += Pattern::bytes_of(layer);
    }
    return places;
}

Pattern pattern_of(std::string_view key) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(key.data());
    return Pattern::from_bytes(std::span(bytes, key.size()).subspan(sizeof(KeyHead)));
}

void DestroyRule::operator()(rte_flow* rule) const { rte_flow::destroy(rule); }

uint64_t hash_of(std::string_view key) {
    uint64_t hash = key.size();
    const auto add = [&](uint64_t word) { // a product's high bits depend on all bits of the word
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    };
    for (; key.size() >= sizeof(uint64_t); key.remove_prefix(sizeof(uint64_t))) {
        uint64_t word;
        std::memcpy(&word, key.data(), sizeof word);
        add(word);
    }
    uint64_t rest = 0;
    for (const char byte : key)
        rest = rest << 8 | static_cast<uint8_t>(byte);
    add(rest);
    return hash;
}

SteeringRequest RuleTerms::request(uint16_t level) const {
    SteeringRequest request;
    request.strict_level = true;
    request.group = group;
    request.jump = jump;
    request.egress = egress;
    request.level = level;
    request.edits = edits;
    request.drop = drop;
    request.tag = tag;
    request.sample = sample;
    request.meter = meter;
    // What counts the copies is asked as the rule's, too.
    if (!sample || !sample->counter || sample->counter->shared()) request.counter = counter;
    return request;
}

} // namespace rawqp

using rawqp::RulePart;
static_assert(sizeof(rte_flow) % alignof(RulePart) == 0, "the parts follow the rule");

template <class Like> void rte_flow::add(const Like& like, const char* key, const char* key_end) {
    if (part_count_ == 0) parts_ = reinterpret_cast<RulePart*>(this + 1);
    new (parts_ + part_count_++) RulePart{
        this, {key, key_end}, 0, like.traffic, like.target, like.whole, 0, like.engine, {}, {}};
}

rte_flow* rte_flow::make(const rawqp::Plan& plan) {
    const size_t keys_at = sizeof(rte_flow) + plan.parts.size() * sizeof(RulePart);
    size_t bytes = keys_at;
    for (const rawqp::PlannedPart& part : plan.parts)
        bytes += rawqp::key_bytes(part.pattern);
    auto* const rule = new (::operator new(bytes)) rte_flow(plan, nullptr);
    char* key = reinterpret_cast<char*>(rule) + keys_at;
    for (const rawqp::PlannedPart& part : plan.parts) {
        char* const end = rawqp::write_key(plan, part.pattern, key);
        rule->add(part, key, end);
        key = end;
    }
    rule->hash_keys();
    return rule;
}

rte_flow* rte_flow::make(rawqp::RuleTerms terms, const rte_flow& model, void* memory,
                         rawqp::RuleMemory* owner) {
    auto* const rule = new (memory) rte_flow(std::move(terms), owner);
    char* key = reinterpret_cast<char*>(rule + 1) + model.parts().size_bytes();
    for (const RulePart& part : model.parts()) {
        char* const end = std::ranges::copy(part.key, key).out;
        rule->add(part, key, end);
        key = end;
    }
    return rule;
}

size_t rte_flow::bytes() const {
    size_t bytes = sizeof(rte_flow) + parts().size_bytes();
    for (const RulePart& part : parts())
        bytes += part.key.size();
    return bytes;
}

void rte_flow::add_to_key(size_t part, size_t at, const rawqp::LayerBytes& bits, size_t bytes) {
    char* const key = const_cast<char*>(parts_[part].key.data()) + at; // in this rule's memory
    rawqp::LayerBytes known{};
    std::memcpy(known.data(), key, bytes);
    const rawqp::LayerBytes both = known | bits;
    std::memcpy(key, both.data(), bytes);
}

void rte_flow::hash_keys() {
    for (RulePart& part : parts())
        part.hash = rawqp::hash_of(part.key);
}

void rte_flow::destroy(rte_flow* rule) {
    std::destroy_n(rule->parts_, rule->part_count_);
    rawqp::RuleMemory* const owner = rule->owner_;
    rule->~rte_flow();
    if (owner != nullptr)
        owner->release(rule);
    else
        ::operator delete(rule);
}

void rte_flow::become(rawqp::OwnedRule other) {
    std::destroy_n(parts_, part_count_);
    static_cast<rawqp::RuleTerms&>(*this) = static_cast<rawqp::RuleTerms&&>(*other);
    parts_ = other->parts_;
    part_count_ = std::exchange(other->part_count_, uint16_t{0});
    for (RulePart& part : parts())
        part.rule = this;
    donor_ = other->donor_ ? std::move(other->donor_) : std::move(other);
}

std::vector<rawqp::Pattern> rte_flow::whole_patterns() const {
    std::vector<rawqp::Pattern> patterns;
    for (const RulePart& part : parts())
        if (part.whole) patterns.push_back(rawqp::pattern_of(part.key));
    return patterns;
}

rawqp::SteeringRequest rte_flow::request(const RulePart& part, uint16_t level) const {
    auto request = RuleTerms::request(level);
    request.pattern = rawqp::pattern_of(part.key);
    request.target = part.target;
    request.engine = part.engine;
    return request;
}

namespace {

std::string destination_text(const rte_flow& rule, const RulePart& part) {
    if (rule.drop) return "drop";
    if (rule.jump) return fmt::format("jump to group {}", *rule.jump);
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
        const std::string of_group = group == 0 ? "" : fmt::format(" group {}", group);
        lines +=
            fmt::format("{}{} priority {}: {}: {}{}{}{}", egress ? "egress" : "ingress", of_group,
                        priority, rawqp::pattern_of(part.key).text(), destination_text(*this, part),
                        tag_text(tag), counts ? ", count" : "", age ? ", age" : "");
        if (meter) lines += ", metered";
        if (sample)
            lines += fmt::format(", a copy of one in {} to queue {}{}", sample->ratio,
                                 sample->target->destination.queues.front(), tag_text(sample->tag));
        if (edits)
            lines += fmt::format(", {} fields rewritten{}{}{}", edits->rewrites.size(),
                                 edits->reformat != rawqp::Reformat::none ? ", reformatted" : "",
                                 edits->pop_vlan ? ", tag taken off" : "",
                                 edits->push_vlan ? ", tag put on" : "");
        lines += part.installed.engine != nullptr
                     ? fmt::format(" (by {})\n", part.installed.engine->name())
                     : " (not installed: the port is stopped)\n";
    }
    return lines;
}
