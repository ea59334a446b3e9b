// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/edit_arguments.hpp"

#include "app/softhca/core/device_state.hpp"

namespace softhca::core {

Outcome<Number> EditArguments::create(Number pd, uint32_t count) {
    if (count == 0 || count > Limits::kMaxEditArgumentsAtOnce) return refuse(Status::bad_parameter);
    if (count > Limits::kMaxEditArguments - arguments_.size()) return refuse(Status::limit);
    const auto [first, range] = arguments_.add(count);
    for (EditArgument& argument : range)
        argument.pd = pd;
    return first;
}

Outcome<void> EditArguments::destroy(Number first) {
    if (!arguments_.find_range(first)) return refuse(Status::bad_resource);
    arguments_.erase(first);
    return {};
}

// ---------------------------------------------------------------- control calls

Outcome<Number> Device::create_edit_arguments(Number pd, uint32_t count) {
    const ControlLock lock(*state_);
    return state_->create_in_pd(pd, [&] { return state_->edit_arguments.create(pd, count); });
}

Outcome<void> Device::destroy_edit_arguments(Number first) {
    const ControlLock lock(*state_);
    return state_->destroy_in_pd(state_->edit_arguments, first);
}

} // namespace softhca::core
