// SPDX-License-Identifier: BSD-3-Clause
// Rings over verbs calls for people to read: see RingFormat. The provider does not reveal its
// state, so the texts report what was posted and what has not completed.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp::verbsrings {

Figures rx_figures(const RxRing& base);
Figures tx_figures(const TxRing& base);
std::string rx_descriptor_text(const RxRing& base, uint16_t offset);
std::string tx_descriptor_text(const TxRing& base, uint16_t offset);

} // namespace rawqp::verbsrings
