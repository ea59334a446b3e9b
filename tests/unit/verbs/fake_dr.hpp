// SPDX-License-Identifier: BSD-3-Clause
// libmlx5's software steering (mlx5dv_dr) as the driver uses it. The device may still use what a
// rule refers to until the next mlx5dv_dr_domain_sync.
#pragma once

#include "tests/unit/verbs/fake_rdma.hpp"

#include <set>

namespace verbs_test {

struct DrTable {
    uint32_t level = 0;

    /// Groups with several stages have so many levels; all others have one.
    static constexpr uint32_t kStages = 23;
    [[nodiscard]] bool staged() const { return level < kStages * kStages; }
    [[nodiscard]] uint32_t group() const {
        return staged() ? level / kStages : level - kStages * (kStages - 1);
    }
    [[nodiscard]] uint32_t stage() const { return staged() ? level % kStages : 0; }
};
struct DrMatcher {
    const DrTable* table = nullptr;
    uint16_t priority = 0;
    uint8_t criteria = 0;
    std::vector<uint8_t> mask;
    uint32_t log_room = 0; ///< of its hash table
};
struct DrAction {
    enum class Kind : uint8_t { table, tir, drop, tag, count, rewrite, reformat };
    Kind kind = Kind::drop;
    const DrTable* table = nullptr;
    mlx5dv_devx_obj* object = nullptr; ///< a TIR or a counter
    uint32_t tag = 0;
    bool root = false;
    std::vector<uint8_t> bytes{};
};
struct DrRule {
    const DrMatcher* matcher = nullptr;
    std::vector<uint8_t> value;
    std::vector<const DrAction*> actions;

    [[nodiscard]] uint32_t group() const { return matcher->table->group(); }
    [[nodiscard]] uint32_t stage() const { return matcher->table->stage(); }
    [[nodiscard]] const DrAction* does(DrAction::Kind kind) const {
        for (const DrAction* const action : actions)
            if (action->kind == kind) return action;
        return nullptr;
    }
};

/// Only one at a time, for a device that outlives it.
class FakeDr {
  public:
    explicit FakeDr(FakeRdma& device);
    ~FakeDr();
    FakeDr(const FakeDr&) = delete;
    FakeDr& operator=(const FakeDr&) = delete;

    bool offered = true; ///< else there is no domain
    int refuses = 0;     ///< errno for matchers below the root
    int sync_error = 0;
    bool resizes = true;    ///< else matchers are covered by no definer
    size_t fail_rule = 0;   ///< this future rule (1: the next) fails
    bool unsettled = false; ///< something was written since the last sync
    size_t domains = 0;
    std::vector<std::unique_ptr<DrTable>> tables;
    std::vector<std::unique_ptr<DrMatcher>> matchers;
    std::vector<std::unique_ptr<DrAction>> actions;
    std::vector<std::unique_ptr<DrRule>> rules;
    /// TIRs and counters that the driver has destroyed but that rules may still refer to.
    std::set<const mlx5dv_devx_obj*> leaving;
    FakeRdma& device;
};

} // namespace verbs_test
