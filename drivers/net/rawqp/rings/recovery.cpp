// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/recovery.hpp"

#include "drivers/net/rawqp/log.hpp"

namespace rawqp {
namespace {

template <class Ring>
void count_and_log(Ring& ring, const char* direction, unsigned status, unsigned vendor) {
    ++ring.counters.recoveries;
    if (!rte_is_power_of_2(static_cast<uint32_t>(ring.counters.recoveries))) return;
    RAWQP_LOG(WARNING,
              "port %u %s queue %u: reset after an error completion, status 0x%02x vendor 0x%02x "
              "(%" PRIu64 " resets so far)",
              ring.port_id, direction, ring.queue_id, status, vendor, ring.counters.recoveries);
}

} // namespace

void log_recovery(RxRing& ring, unsigned status, unsigned vendor) {
    count_and_log(ring, "Rx", status, vendor);
}
void log_recovery(TxRing& ring, unsigned status, unsigned vendor) {
    count_and_log(ring, "Tx", status, vendor);
}

} // namespace rawqp
