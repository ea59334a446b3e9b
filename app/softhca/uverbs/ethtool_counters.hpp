// SPDX-License-Identifier: BSD-3-Clause
// Port counters under the names that mlx5e gives them, where it has one of that meaning.
#pragma once

#include "app/softhca/core/types.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace softhca::uverbs {

struct NamedCounter {
    std::string name;
    uint64_t value;
};

/// Those of the port itself, of sizes, and per priority packets and bytes in both directions.
inline constexpr size_t kEthtoolCounters = 11 + core::kFrameSizeEnds.size() + 4 * core::kPriorities;

/// In the same order each time.
[[nodiscard]] std::array<NamedCounter, kEthtoolCounters>
ethtool_counters(const core::PortCounters& port, const core::FrameCounters& frames);

} // namespace softhca::uverbs
