// SPDX-License-Identifier: BSD-3-Clause
// The ethdev operations that concern the Linux interface beside the port, as the rte_eth_* function
// of the same name documents them. ethdev calls them on control threads, one at a time per port.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

int link_update(rte_eth_dev* dev, int wait) noexcept;
int set_link_up(rte_eth_dev* dev) noexcept;
int set_link_down(rte_eth_dev* dev) noexcept;
int mtu_set(rte_eth_dev* dev, uint16_t mtu) noexcept;

} // namespace rawqp
