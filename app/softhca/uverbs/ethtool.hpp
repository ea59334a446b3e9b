// SPDX-License-Identifier: BSD-3-Clause
// SIOCETHTOOL: link settings, driver and statistics of a port's netdev.
#pragma once

#include <optional>

namespace softhca::uverbs {

struct Port;

/// Answers an ethtool command: 0 or a positive errno. For a real TAP, only what a TAP cannot know
/// (speed, driver, statistics of the port); empty: the kernel must answer.
[[nodiscard]] std::optional<int> ethtool(Port& port, void* command);

} // namespace softhca::uverbs
