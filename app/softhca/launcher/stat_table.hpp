// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace softhca::launcher {

/// The answer to "stat" for people: a block for each device, a table for each kind of queue.
/// Counters that are zero are left out. Knows nothing of what the counters are called.
[[nodiscard]] std::string format_stat(const nlohmann::json& stat);

} // namespace softhca::launcher
