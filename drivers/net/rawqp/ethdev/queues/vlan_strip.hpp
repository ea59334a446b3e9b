// SPDX-License-Identifier: BSD-3-Clause
// Stripping of VLAN tags, which may be turned on and off at run time.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/queues/queue.hpp"

#include <vector>

namespace rawqp {

/// The port's queues that strip, or those that do not.
[[nodiscard]] std::vector<RxQueue*> queues_that_strip(const Port& port, bool strip);
/// Turns it on or off on all of these queues, or on none.
[[nodiscard]] Result<void> set_strip(const std::vector<RxQueue*>& queues, bool strip);

/// Whether the WQ is to strip VLAN tags: stripping is on, and the ring format leaves it to the WQ.
[[nodiscard]] bool wants_wq_strip(const RxQueue& queue);
/// Puts that into effect on a WQ in RDY.
[[nodiscard]] Result<void> update_wq_strip(RxQueue& queue);

} // namespace rawqp
