// SPDX-License-Identifier: BSD-3-Clause
// Rules of software steering, and what becomes of their parts. libmlx5 makes a rule by RDMA writes
// into the device's memory and does not wait for them: what a rule was made of may go when the
// device has seen the last of it.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/engine.hpp"

#include <span>
#include <vector>

namespace rawqp {

/// Rules with the actions that are theirs alone, in memory that is allocated for many at once.
/// Control threads only.
class SoftwareRules {
  public:
    explicit SoftwareRules(const verbs::Api& api) : api_(api) {}

    /// A rule to be, without a rule of the device; it takes that out when it goes.
    class Entry final : public SharedPart {
      public:
        /// Actions of the rule alone. Null with errno.
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

    /// Starts with a domain, in which all rules are.
    void use(mlx5dv_dr_domain* domain) { domain_ = domain; }
    /// Waits for the writes of all that was made and taken out. 0 or an errno.
    [[nodiscard]] int settle();

  private:
    const verbs::Api& api_;
    mlx5dv_dr_domain* domain_ = nullptr;
    bool writes_ = false;             ///< there may be some on their way
    std::vector<CounterRef> leaving_; ///< of rules that the device may still have
    std::vector<std::unique_ptr<Entry[]>> blocks_;
    Entry* free_ = nullptr;
    size_t next_block_ = 64;
};

/// Has the device see the last of the rules that led to an object, before that goes.
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
        if (rules_ != nullptr) (void)rules_->settle(); // a dead device does nothing more with it
    }

  private:
    SoftwareRules* rules_ = nullptr;
};

} // namespace rawqp
