// SPDX-License-Identifier: BSD-3-Clause
// What the driver logs: the unit tests' EAL otherwise suppresses everything below errors.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <gtest/gtest.h>
#include <string>

namespace rings_test {

/// The log output of `work`, warnings and above.
template <class Work> [[nodiscard]] std::string logged(Work&& work) {
    const uint32_t level = rte_log_get_global_level();
    rte_log_set_global_level(RTE_LOG_WARNING);
    testing::internal::CaptureStderr();
    work();
    rte_log_set_global_level(level);
    return testing::internal::GetCapturedStderr();
}

} // namespace rings_test
