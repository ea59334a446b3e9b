// SPDX-License-Identifier: BSD-3-Clause
// Redirection table and hash configuration of a port.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

/// Entries of the redirection table; 0 when the device spreads over one queue only.
[[nodiscard]] uint16_t reta_size(const Port& port);
/// Takes over rx_adv_conf and, if the number of queues has changed, spreads evenly again.
[[nodiscard]] Result<void> configure_rss(Port& port);

} // namespace rawqp
