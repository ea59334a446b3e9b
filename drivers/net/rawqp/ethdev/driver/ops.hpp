// SPDX-License-Identifier: BSD-3-Clause
// The table of the driver's ethdev operations; each room declares its own in an ops.hpp.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

extern const eth_dev_ops kPortOps;

} // namespace rawqp
