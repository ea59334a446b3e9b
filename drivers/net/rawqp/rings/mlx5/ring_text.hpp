// SPDX-License-Identifier: BSD-3-Clause
// Mapped rings for people to read: see RingFormat.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp::mlx5rings {

Figures rx_figures(const RxRing& base);
Figures striding_figures(const RxRing& base);
Figures tx_figures(const TxRing& base);
/// With the WQE and, if it is posted, the CQ entry that it completes in.
std::string rx_descriptor_text(const RxRing& base, uint16_t offset);
std::string striding_descriptor_text(const RxRing& base, uint16_t offset);
/// With the blocks of the burst that it was sent in.
std::string tx_descriptor_text(const TxRing& base, uint16_t offset);

} // namespace rawqp::mlx5rings
