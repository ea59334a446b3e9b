// SPDX-License-Identifier: BSD-3-Clause
// Control calls about the device's own memory, and the objects that its entries use. Each takes the
// device lock.
#include "app/softhca/core/device_state.hpp"

namespace softhca::core {

Outcome<uint64_t> Device::alloc_icm(IcmKind kind, uint64_t bytes, uint32_t log_alignment) {
    const ControlLock lock(*state_);
    return state_->icm.alloc(kind, bytes, log_alignment);
}

Outcome<void> Device::take_icm(uint64_t address, uint64_t bytes) {
    const ControlLock lock(*state_);
    return state_->icm.take(address, bytes);
}

Outcome<void> Device::free_icm(uint64_t address) {
    const ControlLock lock(*state_);
    return state_->icm.free(address);
}

Outcome<DmaArea> Device::icm_area(uint64_t address, uint64_t bytes) const {
    const ControlLock lock(*state_);
    return state_->icm.area(address, bytes);
}

Outcome<Number> Device::create_definer(const ste::Definer& definer) {
    const ControlLock lock(*state_);
    const ste::Format& format = state_->rings.steering_entries(state_->config.steering_format);
    const auto fields = format.layout_fields(definer.layout);
    if (!fields || ste::masked(definer.mask, *fields) != definer.mask)
        return refuse(Status::bad_parameter);
    return state_->definers.create(definer);
}

Outcome<void> Device::destroy_definer(Number number) {
    const ControlLock lock(*state_);
    return state_->definers.destroy(number);
}

} // namespace softhca::core
