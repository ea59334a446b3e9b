// SPDX-License-Identifier: BSD-3-Clause
// The pattern of an rte_flow rule in the driver's own form.
#pragma once

#include "drivers/net/rawqp/ethdev/flow/error.hpp"
#include "drivers/net/rawqp/ethdev/flow/short_list.hpp"
#include "drivers/net/rawqp/ethdev/steering/pattern.hpp"

namespace rawqp {

/// The patterns that together are equivalent to the application's: one, or a few where it asks for
/// what no mask can express ("any VLAN tag", a range). Errors name the item and the field. What a
/// device can match is not checked here.
[[nodiscard]] FlowResult<ShortList<Pattern>> translate_pattern(const rte_flow_item* pattern,
                                                               bool egress = false);
/// The item after this one that is neither void nor of metadata, which may be anywhere.
[[nodiscard]] const rte_flow_item* next_item(const rte_flow_item* item);

} // namespace rawqp
