// SPDX-License-Identifier: BSD-3-Clause
// What all mbufs of a mempool have in common, so that bursts need not look at each. A pool that
// grows may lose it: see rte_mempool::populated_size.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"

namespace rawqp {

/// Bytes from each mbuf of the pool to `headroom` bytes into its buffer, when that is the same for
/// all of them and none has an external buffer; else 0.
[[nodiscard]] uint16_t common_data_offset(rte_mempool* pool, uint16_t headroom);

/// The lkey (as WQEs hold it) of all buffers of the pool when they lie in one memory region; 0 when
/// they do not or that cannot be told (pinned external buffers).
[[nodiscard]] uint32_t common_lkey(rte_mempool* pool, MrCache& mrs);

} // namespace rawqp
