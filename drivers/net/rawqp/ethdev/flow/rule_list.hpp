// SPDX-License-Identifier: BSD-3-Clause
// The rules of a port.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/pointer_set.hpp"
#include "drivers/net/rawqp/ethdev/flow/rule.hpp"

namespace rawqp {

/// Rules in order of creation; found by their handles and by what they match.
class RuleList {
  public:
    RuleList() = default;
    RuleList(const RuleList&) = delete;
    RuleList& operator=(const RuleList&) = delete;
    ~RuleList() { clear(); }

    void add(OwnedRule rule) {
        rte_flow* const added = rule.release();
        added->before = last_;
        (last_ != nullptr ? last_->after : first_) = added;
        last_ = added;
        handles_.insert(hash_of_handle(added), *added);
        add_parts(*added);
    }
    void erase(rte_flow& rule) {
        (rule.before != nullptr ? rule.before->after : first_) = rule.after;
        (rule.after != nullptr ? rule.after->before : last_) = rule.before;
        handles_.erase(hash_of_handle(&rule), rule);
        erase_parts(rule);
        if (rule.age) rule.age->forget(*rule.counter);
        if (rule.counter && rule.counter->shared()) rule.counter->note();
        rte_flow::destroy(&rule);
    }
    /// The rule keeps its handle and its place, and from now on does what `fresh` does.
    void replace(rte_flow& rule, OwnedRule fresh) {
        erase_parts(rule);
        rule.become(std::move(fresh));
        add_parts(rule);
    }
    void clear() {
        while (last_ != nullptr)
            erase(*last_);
    }
    /// A handle may be stale: it is compared, not dereferenced.
    [[nodiscard]] rte_flow* find(const rte_flow* handle) const {
        return handles_.find(hash_of_handle(handle),
                             [&](const rte_flow& rule) { return &rule == handle; });
    }
    /// The rule that matches like this part of another one.
    [[nodiscard]] rte_flow* find(const RulePart& part) const {
        const RulePart* const known =
            parts_.find(part.hash, [&](const RulePart& each) { return each.matches_like(part); });
        return known != nullptr ? known->rule : nullptr;
    }
    [[nodiscard]] rte_flow* first() const { return first_; }
    [[nodiscard]] size_t size() const { return handles_.size(); }
    /// Makes room for `count` rules of `parts` parts each, to be added without allocation.
    void reserve(size_t count, size_t parts) {
        handles_.reserve(handles_.size() + count);
        parts_.reserve(parts_.size() + count * parts);
    }

  private:
    /// Spreads addresses over all bits.
    static uint64_t hash_of_handle(const rte_flow* rule) {
        const uint64_t product = reinterpret_cast<uintptr_t>(rule) * 0x9e3779b97f4a7c15u;
        return product ^ product >> 32;
    }
    void add_parts(rte_flow& rule) {
        for (RulePart& part : rule.parts())
            parts_.insert(part.hash, part);
    }
    void erase_parts(rte_flow& rule) {
        for (const RulePart& part : rule.parts())
            parts_.erase(part.hash, part);
    }

    rte_flow *first_ = nullptr, *last_ = nullptr;
    PointerSet<rte_flow> handles_;
    PointerSet<RulePart> parts_;
};

} // namespace rawqp
