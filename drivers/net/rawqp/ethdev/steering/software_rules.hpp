// SPDX-License-Identifier: BSD-3-Clause
// Rules of software steering, and what happens to their parts. libmlx5 makes a rule by RDMA writes
// into the device's memory and does not wait for them: what a rule was made of may go only when the
// device no longer uses it.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

#include <span>
#include <vector>

namespace rawqp {

/// Rules with the actions that only they use, in memory that is allocated for many at once. Control
/// threads only.
class SoftwareRules {
  public:
    explicit SoftwareRules(const verbs::Api& api) : api_(api) {}

    /// A rule in the making, not yet in the device; its destruction removes it from there.
    class Entry final : public SharedPart {
      public:
        /// Actions of this rule only. Null with errno.
        [[nodiscard]] mlx5dv_dr_action* mark(uint32_t tag);
        [[nodiscard]] mlx5dv_dr_action* count(const CounterRef& counter);
        /// False with errno.
        [[nodiscard]] bool make(mlx5dv_dr_matcher* matcher, mlx5dv_flow_match_parameters* value,
                                std::span<mlx5dv_dr_action*> actions);
        void release() override;

      private:
        friend class SoftwareRules;
        SoftwareRules* owner_ = nullptr;
        Entry* next_free_ = nullptr;
        mlx5dv_dr_rule* rule_ = nullptr;
        mlx5dv_dr_action *mark_ = nullptr, *count_ = nullptr;
        CounterRef counter_;
    };
    [[nodiscard]] Entry& take();

    /// Starts with a domain, to which all rules belong.
    void use(mlx5dv_dr_domain* domain) { domain_ = domain; }
    /// Waits for the writes of everything that was made and removed. 0 or an errno.
    [[nodiscard]] int settle();

  private:
    const verbs::Api& api_;
    mlx5dv_dr_domain* domain_ = nullptr;
    bool writes_ = false;             ///< some may be in flight
    std::vector<CounterRef> leaving_; ///< of rules that the device may still have
    std::vector<std::unique_ptr<Entry[]>> blocks_;
    Entry* free_ = nullptr;
    size_t next_block_ = 64;
};

/// Makes sure, before an object goes, that the device no longer has the rules that led to it.
class SettledFirst {
  public:
    SettledFirst() = default;
    explicit SettledFirst(SoftwareRules& rules) : rules_(&rules) {}
    SettledFirst(SettledFirst&& other) noexcept : rules_(std::exchange(other.rules_, nullptr)) {}
    SettledFirst& operator=(SettledFirst&& other) noexcept {
        std::swap(rules_, other.rules_);
        return *this;
    }
    ~SettledFirst() {
        if (rules_ != nullptr) (void)rules_->settle(); // a dead device no longer uses it
    }

  private:
    SoftwareRules* rules_ = nullptr;
};

} // namespace rawqp
