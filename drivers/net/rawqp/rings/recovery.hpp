// SPDX-License-Identifier: BSD-3-Clause
// What the rings of all formats share on their error path.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp {

/// Keeps the recovery of a faulty queue from eating the lcore: opens at most once per millisecond.
/// Used by the queue's lcore only.
class RetryGate {
  public:
    [[nodiscard]] bool try_pass() {
        const uint64_t now = rte_get_tsc_cycles();
        if (now < next_) return false;
        next_ = now + rte_get_tsc_hz() / 1000;
        return true;
    }
    /// Lets the next try pass at once (the queue was started anew).
    void open() { next_ = 0; }

  private:
    uint64_t next_ = 0;
};

/// Counts a successful reset and logs the 1st, 2nd, 4th, 8th ... of them with the meaning of the
/// completion's status (ibv_wc_status) and the vendor's own code.
void log_recovery(RxRing& ring, unsigned status, unsigned vendor);
void log_recovery(TxRing& ring, unsigned status, unsigned vendor);

} // namespace rawqp
