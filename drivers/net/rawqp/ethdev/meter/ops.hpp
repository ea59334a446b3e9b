// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

/// See eth_dev_ops::mtr_ops_get: rte_mtr_ops, whose calls lock the port.
int meter_ops_get(rte_eth_dev* dev, void* ops) noexcept;

} // namespace rawqp
