// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

/// How ethdev finds the rte_flow operations.
int flow_ops_get(rte_eth_dev* dev, const rte_flow_ops** ops) noexcept;

/// What DPDK 24.11 and later keep beside rte_flow_ops.
void set_flow_queue_ops(rte_eth_dev& dev) noexcept;
/// Of a port that has no flows any more.
void unset_flow_queue_ops(rte_eth_dev& dev) noexcept;

} // namespace rawqp
