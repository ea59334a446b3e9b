// SPDX-License-Identifier: BSD-3-Clause
// Rx interrupts: a completion channel per queue, on which the application waits with epoll.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

/// Gives the queue a completion channel when the port is configured with Rx interrupts. Before its
/// CQ is created.
[[nodiscard]] Result<void> create_rx_channel(RxQueue& queue);

/// Makes the channels known to ethdev (rte_eth_dev_rx_intr_ctl). At port start, with all queues.
[[nodiscard]] Result<void> publish_rx_channels(Port& port);
void withdraw_rx_channels(Port& port);

} // namespace rawqp
