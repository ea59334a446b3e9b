// SPDX-License-Identifier: BSD-3-Clause
// The pattern of an rte_flow rule in the driver's own form.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/flow/short_list.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

namespace rawqp {

/// The patterns that together stand for the application's: one, or a few where it asks for what is
/// no mask ("any VLAN tag", a range). Errors name the item and the field. Which of it a device can
/// match is not looked at here.
[[nodiscard]] FlowResult<ShortList<Pattern>> translate_pattern(const rte_flow_item* pattern,
                                                               bool egress = false);
/// The item after this one that is not void.
[[nodiscard]] const rte_flow_item* next_item(const rte_flow_item* item);

} // namespace rawqp
