// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/software_rules.hpp"

#include <cerrno>

namespace rawqp {

mlx5dv_dr_action* SoftwareRules::Entry::mark(uint32_t tag) {
    return mark_ = owner_->api_.mlx5_dr_tag(tag);
}

mlx5dv_dr_action* SoftwareRules::Entry::count(const CounterRef& counter) {
    const DevxObject* const object = counter->devx();
    if (object == nullptr) return nullptr;
    counter_ = counter;
    return count_ = owner_->api_.mlx5_dr_count(object->handle.get(), 0);
}

bool SoftwareRules::Entry::make(mlx5dv_dr_matcher* matcher, mlx5dv_flow_match_parameters* value,
                                std::span<mlx5dv_dr_action*> actions) {
    rule_ = owner_->api_.mlx5_dr_rule_create(matcher, value, actions.size(), actions.data());
    owner_->writes_ = true;
    return rule_ != nullptr;
}

void SoftwareRules::Entry::release() {
    const verbs::Api& api = owner_->api_;
    if (rule_ != nullptr) {
        verbs::destroy_object(rule_, api.mlx5_dr_rule_destroy, "rule of software steering");
        owner_->writes_ = true;
    }
    for (mlx5dv_dr_action* const action : {mark_, count_})
        if (action != nullptr)
            verbs::destroy_object(action, api.mlx5_dr_action_destroy, "steering action");
    if (counter_ && rule_ != nullptr) owner_->leaving_.push_back(std::move(counter_));
    counter_ = nullptr; // the rule was not made: nothing settles it
    rule_ = nullptr;
    mark_ = count_ = nullptr;
    next_free_ = std::exchange(owner_->free_, this);
}

SoftwareRules::Entry& SoftwareRules::take() {
    if (free_ == nullptr) {
        auto& block = blocks_.emplace_back(std::make_unique<Entry[]>(next_block_));
        for (size_t i = next_block_; i-- > 0;) {
            block[i].owner_ = this;
            block[i].next_free_ = std::exchange(free_, &block[i]);
        }
        next_block_ *= 2;
    }
    return *std::exchange(free_, free_->next_free_);
}

int SoftwareRules::settle() {
    if (!writes_) return 0;
    const int error = api_.mlx5_dr_domain_sync(domain_, MLX5DV_DR_DOMAIN_SYNC_FLAGS_SW);
    if (error != 0) return error > 0 ? error : EIO; // the next one to wait is told, too
    writes_ = false;
    leaving_.clear();
    return 0;
}

} // namespace rawqp
