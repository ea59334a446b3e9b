// SPDX-License-Identifier: BSD-3-Clause
// `softhca trace` and `softhca capture`: the packets of programs that run on softhca.
#pragma once

#include "app/softhca/launcher/options.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace softhca::launcher {

/// They return the exit status, and end by SIGINT or SIGTERM, with the program, or after `count`
/// packets. Answers go to stdout, everything else to stderr.
[[nodiscard]] int trace(const TraceCommand& command);
[[nodiscard]] int capture(const CaptureCommand& command);

/// A packet's way, for people; `number` is its place among those that are shown.
[[nodiscard]] std::string format_passage(const nlohmann::json& packet, uint64_t number);

} // namespace softhca::launcher
