// SPDX-License-Identifier: BSD-3-Clause
// The clocks of this machine. The device's clock is CLOCK_MONOTONIC, with ticks of a nanosecond.
#pragma once

#include <cstdint>
#include <ctime>

namespace softhca {

[[nodiscard]] inline uint64_t clock_ns(clockid_t clock = CLOCK_MONOTONIC) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

} // namespace softhca
