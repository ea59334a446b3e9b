// SPDX-License-Identifier: BSD-3-Clause
// What becomes known of recoveries that fail.
#pragma once

#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {

/// After a recovery of the queue, `error` 0 or why it failed: logs the first failure of a row and
/// those whose number is a power of two, and none once the device is gone.
template <class Queue> void note_recovery(Queue& queue, const char* direction, int error) {
    queue.failed_recoveries = error != 0 ? queue.failed_recoveries + 1 : 0;
    const uint32_t failures = queue.failed_recoveries;
    if (failures == 0 || !rte_is_power_of_2(failures) || queue.port.shared.is_lost()) return;
    RAWQP_LOG(
        ERR, "%s: %s queue %u cannot recover from an error: %s (%u tries so far, more follow)",
        queue.port.name.c_str(), direction, queue.spec.queue_id, rte_strerror(error), failures);
}

} // namespace rawqp
