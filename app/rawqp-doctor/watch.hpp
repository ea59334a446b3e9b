// SPDX-License-Identifier: BSD-3-Clause
// Counters of a device and of the programs on it, watched for a while.
#pragma once

#include "app/rawqp-doctor/telemetry.hpp"
#include "common/diagnosis/checks.hpp"

namespace doctor {

struct Counters {
    std::map<std::string, uint64_t> device; ///< of the RDMA port and its interface
    std::vector<DpdkPort> ports;
};

[[nodiscard]] Counters read_counters(const diagnosis::Case& subject);

/// One finding for each cause for which packets were dropped or held back in between,
/// "drops-CAUSE", or one that says that there was none.
[[nodiscard]] std::vector<diagnosis::Finding> drops(const Counters& before, const Counters& after,
                                                    unsigned seconds);

} // namespace doctor
