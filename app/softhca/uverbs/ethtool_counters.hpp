// SPDX-License-Identifier: BSD-3-Clause
// Port counters under mlx5e's names, where it has one of that meaning.
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

/// The port's own, those by size, and per priority the packets and bytes in both directions.
inline constexpr size_t kEthtoolCounters = 11 + core::kFrameSizeEnds.size() + 4 * core::kPriorities;

/// Always in the same order.
[[nodiscard]] std::array<NamedCounter, kEthtoolCounters>
ethtool_counters(const core::PortCounters& port, const core::FrameCounters& frames);

} // namespace softhca::uverbs
