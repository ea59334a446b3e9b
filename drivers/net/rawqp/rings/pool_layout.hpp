// SPDX-License-Identifier: BSD-3-Clause
// What all mbufs of a mempool have in common, so that bursts need not look at each. A pool that
// grows may lose this: see rte_mempool::populated_size.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"

#include <array>

namespace rawqp {

/// Bytes from each mbuf of the pool to `headroom` bytes into its buffer, when that is the same for
/// all of them and none has an external buffer; else 0.
[[nodiscard]] uint16_t common_data_offset(rte_mempool* pool, uint16_t headroom, MrCache& mrs);

/// The lkey (as WQEs hold it) of all buffers of the pool when they lie in one memory region; 0 when
/// they do not or it cannot be determined (pinned external buffers).
[[nodiscard]] uint32_t common_lkey(rte_mempool* pool, MrCache& mrs);

/// The lkey that holds for all buffers of a mempool, for the pools seen last. Used by the queue's
/// lcore only. A pool that has grown counts as another one: its new mbufs may be in another memory
/// region.
class PoolKeys {
  public:
    /// As WQEs hold it; 0 when the pool's buffers are in several memory regions or not its own.
    [[nodiscard]] uint32_t find(rte_mempool* pool, MrCache& mrs) {
        return last_.is(pool) ? last_.lkey_be : miss(pool, mrs);
    }
    /// Forgets everything (MrCache::sync said so).
    void clear();

  private:
    struct Entry {
        rte_mempool* pool = nullptr;
        uint32_t size = 0; ///< mbufs that the pool had
        uint32_t lkey_be = 0;
        [[nodiscard]] bool is(const rte_mempool* other) const {
            return pool == other && size == other->populated_size;
        }
    };
    [[gnu::noinline, gnu::cold]] uint32_t miss(rte_mempool* pool, MrCache& mrs);

    Entry last_;
    std::array<Entry, 8> known_;
    uint8_t next_ = 0; ///< of known_, to overwrite
};

} // namespace rawqp
