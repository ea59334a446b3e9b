// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

/// Link state now: up when the RDMA port and the netdev both are; the speed is the netdev's. Any
/// control thread.
[[nodiscard]] rte_eth_link read_link(const Port& port);
/// RTE_ETH_LINK_SPEED_* that the device can do, by the interface's link modes or, where they are
/// not visible, by the RDMA port's present speed.
[[nodiscard]] uint32_t read_speeds(const Port& port);
/// By the RDMA port's own attributes.
[[nodiscard]] rte_eth_link link_of(const ibv_port_attr& attributes);

} // namespace rawqp
