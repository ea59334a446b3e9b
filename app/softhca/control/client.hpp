// SPDX-License-Identifier: BSD-3-Clause
// Asks the control sockets of programs that run on softhca's devices.
#pragma once

#include "common/result.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <sys/types.h>
#include <vector>

namespace softhca::control {

/// A running program's control socket.
struct Instance {
    pid_t pid = 0;
    std::string socket;
};

/// Those in one runtime folder.
[[nodiscard]] std::vector<Instance> find_instances(const std::string& runtime_dir);

/// One request, one answer, within two seconds. ECONNREFUSED: the program has gone.
[[nodiscard]] Result<nlohmann::json> ask(const Instance& instance, const nlohmann::json& request);

} // namespace softhca::control
