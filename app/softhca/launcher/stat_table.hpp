// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace softhca::launcher {

/// Formats the answer to "stat" or "dump" for people: a block for each device, a table for each
/// kind of object. Zero, false and empty values are left out. Independent of the names used in it.
[[nodiscard]] std::string format_stat(const nlohmann::json& stat);

} // namespace softhca::launcher
