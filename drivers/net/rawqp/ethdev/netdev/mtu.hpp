// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

/// Sets the netdev's MTU to the port's: a longer frame than Rx buffers expect stops a queue.
[[nodiscard]] Result<void> sync_netdev_mtu(const Port& port, uint16_t mtu);

} // namespace rawqp
