// SPDX-License-Identifier: BSD-3-Clause
// The refill's short path: buffers straight from the lcore's mempool cache into ring and WQEs.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_simd.hpp"

#include <utility>

namespace rawqp::mlx5rings {
namespace {

inline constexpr uint32_t kWqesPerLine = RTE_CACHE_LINE_SIZE / sizeof(mlx5::WqeDataSeg);
static_assert(sizeof(Pointers) == kWqesPerLine * sizeof(rte_mbuf*));
/// Lines of WQEs that are posted together: as many as there are registers for their addresses.
inline constexpr uint32_t kLines = 8;

/// Puts mbufs into the slots of whole lines of WQEs and, at `offset`, into these, which hold the
/// rest already.
///
/// The device has read the WQEs, so a store into such a line waits until the device's copy is gone,
/// and the stores after it wait with it, as they leave the CPU in order. So the slots are stored
/// first, then one WQE of each line, so that the CPU asks for as many lines at once as it can, and
/// then the others. Nothing of a line is loaded: it would be fetched as shared first.
template <size_t... Line>
inline void post_lines(mlx5::WqeDataSeg* wqes, rte_mbuf** slots, rte_mbuf* const* fresh,
                       uint64_t offset, std::index_sequence<Line...>) {
    const Pointers mbufs[] = {load_pointers(&fresh[Line * kWqesPerLine])...};
    (store_pointers(&slots[Line * kWqesPerLine], mbufs[Line]), ...);
    const Pointers addresses[] = {big_endian(mbufs[Line] + offset)...};
    const auto store_one_each = [&]<size_t I>(std::integral_constant<size_t, I>) {
        rte_compiler_barrier(); // compilers would put neighbours together
        ((wqes[Line * kWqesPerLine + I].addr.raw = addresses[Line][I]), ...);
    };
    [&]<size_t... I>(std::index_sequence<I...>) {
        (store_one_each(std::integral_constant<size_t, I>{}), ...);
    }
    (std::make_index_sequence<kWqesPerLine>());
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

    auto* const fresh = reinterpret_cast<rte_mbuf**>(&cache->objs[cache->len - count]);
    rte_mbuf** const slots = &ring.mbufs[slot];
    mlx5::WqeDataSeg* const wqes = &ring.wqes[slot];
    const uint64_t offset = ring.data_offset;
    constexpr uint32_t kTogether = kLines * kWqesPerLine;
    uint32_t i = 0;
    for (; i + kTogether <= count; i += kTogether)
        post_lines(&wqes[i], &slots[i], &fresh[i], offset, std::make_index_sequence<kLines>());
    for (; i < count; i += kWqesPerLine)
        post_lines(&wqes[i], &slots[i], &fresh[i], offset, std::make_index_sequence<1>());
    cache->len -= count;
    ring.producer = static_cast<uint16_t>(ring.producer + count);
    ring.nombuf_due = 0;
    ring.ring_doorbell();
    return true;
}

} // namespace
} // namespace rawqp::mlx5rings
