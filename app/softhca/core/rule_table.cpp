// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rule_table.hpp"

#include <utility>

namespace softhca::core {

void RuleTable::place(Slot slot) {
    size_t at = slot.hash & last();
    while (slots_[at].rule)
        at = (at + 1) & last();
    slots_[at] = std::move(slot);
}

Rule& RuleTable::insert(const FlowKey& value) {
    if (2 * (used_ + 1) > slots_.size()) {
        std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
        for (Slot& slot : old)
            if (slot.rule) place(std::move(slot));
    }
    auto rule = std::make_unique<Rule>();
    rule->value = value;
    Rule& inserted = *rule;
    place({mask_.hash(value), std::move(rule)});
    used_++;
    return inserted;
}

void RuleTable::erase(const FlowKey& value) {
    size_t at = mask_.hash(value) & last();
    while (!mask_.match(slots_[at].rule->value, value))
        at = (at + 1) & last();
    slots_[at] = {};
    used_--;
    // A later slot of the same run may have been displaced by the one that was removed.
    for (at = (at + 1) & last(); slots_[at].rule; at = (at + 1) & last())
        place(std::exchange(slots_[at], {}));
}

} // namespace softhca::core
