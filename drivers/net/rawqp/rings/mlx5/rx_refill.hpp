// SPDX-License-Identifier: BSD-3-Clause
// The refill's short path: buffers straight from the lcore's mempool cache into ring and WQEs, four
// at a time.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_simd.hpp"

namespace rawqp::mlx5rings {
namespace {

/// Replaces the missing buffers in batches. False: not all of the pool lies in one memory region at
/// a known distance from its mbufs, the lcore's cache holds too few, or the ring's end is near.
inline bool refill_from_cache(MlxRxRing& ring) {
    if (ring.data_offset == 0 || ring.pool->populated_size != ring.pool_size) return false;
    rte_mempool_cache* const cache = rte_mempool_default_cache(ring.pool, rte_lcore_id());
    const uint32_t batch = ring.refill_batch;
    const uint32_t count = ring.missing() & ~(batch - 1);
    const uint32_t slot = ring.producer & ring.mask;
    if (cache == nullptr || cache->len < count || ring.mask + 1 - slot < count) return false;

    uint64_t head; // byte count and lkey: the same in all WQEs
    memcpy(&head, &ring.wqes[slot], sizeof head);
    auto* const fresh = reinterpret_cast<rte_mbuf**>(&cache->objs[cache->len - count]);
    const uint64_t offset = ring.data_offset;
    rte_mbuf** const slots = &ring.mbufs[slot];
    mlx5::WqeDataSeg* const wqes = &ring.wqes[slot];
    for (uint32_t i = 0; i < count; i += 4)
        post_four(&wqes[i], &slots[i], &fresh[i], offset, head);
    cache->len -= count;
    ring.producer = static_cast<uint16_t>(ring.producer + count);
    ring.nombuf_due = 0;
    ring.ring_doorbell();
    return true;
}

} // namespace
} // namespace rawqp::mlx5rings
