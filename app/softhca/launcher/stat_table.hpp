// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace softhca::launcher {

/// The answer to "stat" or "dump" for people: a block for each device, a table for each kind of
/// object. What is zero, false or empty is left out. Knows nothing of what things are called.
[[nodiscard]] std::string format_stat(const nlohmann::json& stat);

} // namespace softhca::launcher
