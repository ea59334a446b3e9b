// SPDX-License-Identifier: BSD-3-Clause
// The PRM's match parameters (fte_match_param), as both DV flows and firmware commands have them.
#pragma once

#include "app/softhca/core/flow_key.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace softhca::prm {

/// The mask of a DV matcher or flow group. Flow keys have one pair of ports, the PRM one for TCP
/// and one for UDP: `l4` says which of them the mask is about (0: no ports).
struct MatchMask {
    core::FlowKey mask;
    uint8_t l4 = 0;
};

/// Reads a mask, of which the device knows the outer headers and the IPv6 flow label and VXLAN VNI
/// of the misc parameters. Nothing: the mask has a bit that it does not know.
[[nodiscard]] std::optional<MatchMask> read_match_mask(std::span<const std::byte> prm);
/// The values that belong to a mask so read.
[[nodiscard]] core::FlowKey read_match_value(std::span<const std::byte> prm, const MatchMask& mask);

} // namespace softhca::prm
