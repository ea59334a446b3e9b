// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

/// How ethdev finds the rte_flow operations.
int flow_ops_get(rte_eth_dev* dev, const rte_flow_ops** ops) noexcept;

/// Sets the operations that DPDK 24.11 and later keep apart from rte_flow_ops.
void set_flow_queue_ops(rte_eth_dev& dev) noexcept;
/// For a port that no longer has flows.
void unset_flow_queue_ops(rte_eth_dev& dev) noexcept;

} // namespace rawqp
