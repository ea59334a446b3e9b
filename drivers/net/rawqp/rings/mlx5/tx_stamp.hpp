// SPDX-License-Identifier: BSD-3-Clause
// When packets were sent: RingFormat's functions for RTE_MBUF_F_TX_IEEE1588_TMST. The completion of
// a WQE tells when the device had sent it.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

#include <optional>

namespace rawqp::mlx5rings {

[[nodiscard]] eth_tx_burst_t tx_stamping(uint16_t port_id, eth_tx_burst_t plain);
[[nodiscard]] std::optional<uint64_t> tx_take_stamp(TxRing& ring);

} // namespace rawqp::mlx5rings
