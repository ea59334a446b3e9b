// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/stages.hpp"

#include <algorithm>

namespace rawqp {

uint8_t GroupStages::stage_of(const Group& group, uint32_t priority) const {
    const auto at = groups_.find(group);
    if (at == groups_.end()) return 0;
    const auto& stages = at->second;
    const auto begun = std::ranges::lower_bound(stages, priority, {}, &Stage::after);
    return static_cast<uint8_t>(begun - stages.begin());
}

GroupStages::Stage* GroupStages::find(const Group& group, uint8_t number) {
    const auto at = groups_.find(group);
    if (number == 0 || at == groups_.end() || number > at->second.size()) return nullptr;
    return &at->second[number - 1u];
}

GroupStages::Stage& GroupStages::open(const Group& group, uint32_t after) {
    auto& stages = groups_[group];
    return stages.emplace_back(*this, group, static_cast<uint8_t>(stages.size() + 1), after);
}

void GroupStages::trim(Group group) {
    const auto at = groups_.find(group);
    auto& stages = at->second;
    while (!stages.empty() && stages.back().users() == 0)
        stages.pop_back();
    if (stages.empty()) groups_.erase(at);
}

} // namespace rawqp
