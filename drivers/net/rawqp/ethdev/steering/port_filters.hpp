// SPDX-License-Identifier: BSD-3-Clause
// The filters of a port, between ethdev's data and steering.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/steering/filters.hpp"

namespace rawqp {

/// The port's own filters as ethdev's data describe them now.
[[nodiscard]] FilterState wanted_filters(const Port& port);
/// Installs them; does nothing while the port is stopped or isolated, or has no Rx queues. Changes
/// are atomic: on failure the old filters stay.
[[nodiscard]] Result<void> apply_filters(Port& port, const FilterState& state);

} // namespace rawqp
