// SPDX-License-Identifier: BSD-3-Clause
// The clock by which send queues wait, for RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP.
#pragma once

#include "common/verbs/api.hpp"

#include <cstdint>

namespace rawqp {

struct SendClock {
    uint64_t mask = 0; ///< bits of it that queues can wait for; 0: they cannot
    uint32_t khz = 0;
};

/// Asks the device about a clock of that frequency; a debug message says why it cannot.
[[nodiscard]] SendClock find_send_clock(const verbs::Api& api, ibv_context* context, uint64_t khz);

} // namespace rawqp
