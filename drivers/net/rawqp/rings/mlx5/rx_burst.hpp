// SPDX-License-Identifier: BSD-3-Clause
// Receive bursts of the instruction sets, for rings of one segment per packet. Each is in an object
// library of its own and may be called on CPUs that have the instructions only.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp::mlx5rings {

/// `offloads`: checksum, VLAN or hash wanted in the mbuf.
Burst<eth_rx_burst_t> rx_burst_avx2(bool offloads);
Burst<eth_rx_burst_t> rx_burst_avx512(bool offloads); ///< F, BW, DQ and VL

} // namespace rawqp::mlx5rings
