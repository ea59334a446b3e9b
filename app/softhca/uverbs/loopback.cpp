// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/loopback.hpp"

namespace softhca::uverbs {

core::Number LocalLoopback::new_domain() {
    const std::lock_guard lock(mutex_);
    return ++last_domain_;
}

void LocalLoopback::change(Use use, int by, core::Device& device) {
    const std::lock_guard lock(mutex_);
    (use == Use::context ? contexts_ : self_hearing_qps_) += by;
    const bool on = contexts_ > 1 || self_hearing_qps_ > 0;
    device.set_loopback({.unicast = on, .multicast = on});
}

} // namespace softhca::uverbs
