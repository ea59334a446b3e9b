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
/// and one for UDP: `l4` says which of them the mask refers to (0: no ports), outer and inner.
struct MatchMask {
    core::FlowKey mask;
    uint8_t l4 = 0, inner_l4 = 0;
};

/// A field of the match parameters and its position in a flow key: bits from the start of each.
struct MatchField {
    static constexpr uint8_t kNotAnnounced = 0xff;
    uint16_t prm_bit;
    uint16_t key_bit;
    uint8_t width;
    uint8_t capability = kNotAnnounced; ///< its bit in flow_table_fields_supported
    uint8_t l4 = 0; ///< 6 TCP, 17 UDP: it is that protocol's (their ports share a place)
};
/// Every field that the device matches. A new field is a row here, and a member of FlowKey.
[[nodiscard]] std::span<const MatchField> match_fields();

/// Empty: the mask has a bit that the device does not match.
[[nodiscard]] std::optional<MatchMask> read_match_mask(std::span<const std::byte> prm);
/// The values that belong to a mask read by read_match_mask().
[[nodiscard]] core::FlowKey read_match_value(std::span<const std::byte> prm, const MatchMask& mask);

} // namespace softhca::prm
