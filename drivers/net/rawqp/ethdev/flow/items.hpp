// SPDX-License-Identifier: BSD-3-Clause
// The pattern of an rte_flow rule, translated into verbs matches.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/steering/match.hpp"

#include <vector>

namespace rawqp {

/// The matches that together stand for the pattern (one, or two for "any VLAN tag"); a packet
/// matches at most one of them. Errors name the item and the field.
[[nodiscard]] FlowResult<std::vector<FlowMatch>> translate_pattern(const rte_flow_item* pattern);

} // namespace rawqp
