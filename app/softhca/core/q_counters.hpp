// SPDX-License-Identifier: BSD-3-Clause
// Numbers of Q counters, of which a front may show its programs those that it did not create.
#pragma once

#include "app/softhca/core/types.hpp"

namespace softhca::core {

/// Another number for the device's own Q counter, which is 0: in contexts of queues, 0 means none.
inline constexpr Number kOwnQCounter = 1;

} // namespace softhca::core
