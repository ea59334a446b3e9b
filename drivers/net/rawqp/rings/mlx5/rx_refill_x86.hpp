// SPDX-License-Identifier: BSD-3-Clause
// The refill's short path: buffers straight from the lcore's mempool cache into ring and WQEs, four
// at a time. For AVX2 objects and those above.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"

namespace rawqp::mlx5rings {
namespace {

/// Four WQEs that differ in their address only.
inline void write_addresses(mlx5::WqeDataSeg* wqes, __m256i mbufs, __m256i offset, __m256i head) {
    const __m256i swap = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8));
    const __m256i address = _mm256_shuffle_epi8(_mm256_add_epi64(mbufs, offset), swap);
    const __m256i even = _mm256_unpacklo_epi64(head, address);   // WQEs 0 and 2
    const __m256i odd = _mm256_blend_epi32(head, address, 0xcc); // 1 and 3
    auto* const to = reinterpret_cast<__m128i*>(wqes);
    _mm_storeu_si128(to, _mm256_castsi256_si128(even));
    _mm_storeu_si128(to + 1, _mm256_castsi256_si128(odd));
    _mm_storeu_si128(to + 2, _mm256_extracti128_si256(even, 1));
    _mm_storeu_si128(to + 3, _mm256_extracti128_si256(odd, 1));
}

/// Replaces the missing buffers in batches. False: not all of the pool lies in one memory region at
/// a known distance from its mbufs, the lcore's cache holds too few, or the ring's end is near.
inline bool refill_from_cache(MlxRxRing& ring) {
    if (ring.data_offset == 0 || ring.pool->populated_size != ring.pool_size) return false;
    rte_mempool_cache* const cache = rte_mempool_default_cache(ring.pool, rte_lcore_id());
    const uint32_t batch = ring.refill_batch;
    const uint32_t count = ring.missing() & ~(batch - 1);
    const uint32_t slot = ring.producer & ring.mask;
    if (cache == nullptr || cache->len < count || ring.mask + 1 - slot < count) return false;

    const __m256i offset = _mm256_set1_epi64x(ring.data_offset);
    int64_t head_bytes; // byte count and lkey: the same in all WQEs
    memcpy(&head_bytes, &ring.wqes[slot], sizeof head_bytes);
    const __m256i head = _mm256_set1_epi64x(head_bytes);
    auto* const fresh = reinterpret_cast<rte_mbuf**>(&cache->objs[cache->len - count]);
    for (uint32_t i = 0; i < count; i += 4) {
        const __m256i mbufs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(&fresh[i]));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(&ring.mbufs[slot + i]), mbufs);
        write_addresses(&ring.wqes[slot + i], mbufs, offset, head);
    }
    cache->len -= count;
    ring.producer = static_cast<uint16_t>(ring.producer + count);
    ring.nombuf_due = 0;
    ring.ring_doorbell();
    return true;
}

} // namespace
} // namespace rawqp::mlx5rings
