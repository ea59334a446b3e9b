// SPDX-License-Identifier: BSD-3-Clause
// `softhca trace` and `softhca capture`: the packets of programs that run on softhca.
#pragma once

#include "app/softhca/launcher/options.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace softhca::launcher {

/// These return the exit status, and end on SIGINT or SIGTERM, when the program ends, or after
/// `count` packets. Answers go to stdout, everything else to stderr.
[[nodiscard]] int trace(const TraceCommand& command);
[[nodiscard]] int capture(const CaptureCommand& command);

/// A packet's path in readable form; `number` is its position among those shown.
[[nodiscard]] std::string format_passage(const nlohmann::json& packet, uint64_t number);

} // namespace softhca::launcher
