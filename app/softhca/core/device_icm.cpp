// SPDX-License-Identifier: BSD-3-Clause
// Control calls about the device's own memory. Each takes the device lock.
#include "app/softhca/core/device_state.hpp"

namespace softhca::core {

Outcome<uint64_t> Device::alloc_icm(IcmKind kind, uint64_t bytes) {
    const ControlLock lock(*state_);
    return state_->icm.alloc(kind, bytes);
}

Outcome<void> Device::free_icm(uint64_t address) {
    const ControlLock lock(*state_);
    return state_->icm.free(address);
}

Outcome<DmaArea> Device::icm_area(uint64_t address, uint64_t bytes) const {
    const ControlLock lock(*state_);
    return state_->icm.area(address, bytes);
}

} // namespace softhca::core
