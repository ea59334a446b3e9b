// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/recovery.hpp"

#include "drivers/net/rawqp/log.hpp"

namespace rawqp {
namespace {

const char* name_of(unsigned status) {
    switch (status) {
    case IBV_WC_LOC_LEN_ERR: return "length error";
    case IBV_WC_LOC_QP_OP_ERR: return "malformed or unsupported WQE";
    case IBV_WC_LOC_PROT_ERR: return "protection error: memory that is not registered";
    case IBV_WC_WR_FLUSH_ERR: return "flushed: the queue failed without a packet";
    case IBV_WC_BAD_RESP_ERR: return "bad response";
    case IBV_WC_LOC_ACCESS_ERR: return "access error";
    default: return "other error";
    }
}

template <class Ring>
void count_and_log(Ring& ring, const char* direction, unsigned status, unsigned vendor) {
    count_up(ring.counters.recoveries);
    if (!rte_is_power_of_2(static_cast<uint32_t>(ring.counters.recoveries))) return;
    RAWQP_LOG(WARNING,
              "port %u %s queue %u: reset after an error completion: %s (vendor's code 0x%02x; "
              "%" PRIu64 " resets so far)",
              ring.port_id, direction, ring.queue_id, name_of(status), vendor,
              ring.counters.recoveries);
}

} // namespace

void log_recovery(RxRing& ring, unsigned status, unsigned vendor) {
    count_and_log(ring, "Rx", status, vendor);
}
void log_recovery(TxRing& ring, unsigned status, unsigned vendor) {
    count_and_log(ring, "Tx", status, vendor);
}

} // namespace rawqp
