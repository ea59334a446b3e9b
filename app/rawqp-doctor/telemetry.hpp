// SPDX-License-Identifier: BSD-3-Clause
// What running DPDK programs report about their ports over their telemetry sockets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace doctor {

struct DpdkPort {
    std::string name; ///< "net_rawqp0 (pid 12)", "0000:ca:00.0 (pid 12)"
    std::map<std::string, uint64_t> xstats;
};

/// The ports of all programs that answer: this user's, as EAL places their sockets.
[[nodiscard]] std::vector<DpdkPort> running_ports();

} // namespace doctor
