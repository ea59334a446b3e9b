// SPDX-License-Identifier: BSD-3-Clause
// The refill's short path: buffers straight from the lcore's mempool cache into ring and WQEs.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"

namespace rawqp::mlx5rings {
namespace {

inline constexpr uint32_t kWqesPerLine = RTE_CACHE_LINE_SIZE / sizeof(mlx5::WqeDataSeg);
/// Lines of WQEs that are posted together: few enough for registers to hold their addresses.
inline constexpr uint32_t kLines = 32 / kWqesPerLine;

/// The data segments of `Count` mbufs, a multiple of four, as the device reads them: `head` is
/// their byte count and lkey, and the data of each mbuf are at `offset` from it.
#if defined(RAWQP_VECTORS)
template <uint32_t Count> class DataSegments {
  public:
    DataSegments(rte_mbuf* const* mbufs, uint64_t offset, uint64_t head) : heads_(Four{} + head) {
        for (uint32_t i = 0; i < Count / 4; ++i)
            addresses_[i] = load(&mbufs[4 * i], offset);
    }
    /// Stores two from `i` on, which is even, in one piece.
    void store_two(mlx5::WqeDataSeg* wqes, uint32_t i) const {
        const Four& four = addresses_[i / 4];
        const Four two = i % 4 == 0 ? __builtin_shufflevector(heads_, four, 0, 4, 1, 5)
                                    : __builtin_shufflevector(heads_, four, 2, 6, 3, 7);
        static_assert(sizeof two == 2 * sizeof *wqes);
        memcpy(&wqes[i], &two, sizeof two);
    }

  private:
    using Four [[gnu::vector_size(4 * sizeof(uint64_t))]] = uint64_t;
    using Bytes [[gnu::vector_size(sizeof(Four))]] = uint8_t;

    static Four load(rte_mbuf* const* mbufs, uint64_t offset) {
        Four four;
        memcpy(&four, mbufs, sizeof four);
        const auto bytes = reinterpret_cast<Bytes>(four + offset);
        return reinterpret_cast<Four>(__builtin_shufflevector(
            bytes, bytes, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 23, 22, 21, 20, 19,
            18, 17, 16, 31, 30, 29, 28, 27, 26, 25, 24));
    }

    Four heads_;
    Four addresses_[Count / 4];
};
#else
template <uint32_t Count> class DataSegments {
  public:
    DataSegments(rte_mbuf* const* mbufs, uint64_t offset, uint64_t)
        : mbufs_(mbufs), offset_(offset) {}
    /// Stores their addresses only: WQEs hold the rest already.
    void store_two(mlx5::WqeDataSeg* wqes, uint32_t i) const {
        for (const uint32_t end = i + 2; i < end; ++i)
            wqes[i].addr = reinterpret_cast<uint64_t>(mbufs_[i]) + offset_;
    }

  private:
    rte_mbuf* const* mbufs_;
    uint64_t offset_;
};
#endif

/// Puts mbufs into the slots of whole lines of WQEs, and their data segments into the WQEs.
///
/// The device has read the WQEs, so a store into such a line waits until the device's copy is
/// invalidated, and later stores wait behind it, as they leave the CPU in order. So the slots are
/// stored first, then two WQEs of each line, so that the CPU requests as many lines at once as it
/// can, and then the others. Nothing of a line is loaded: that would first fetch it as shared. And
/// stores are few, even though they rewrite each segment's unchanged first half: the next burst's
/// stores wait behind them.
template <uint32_t Lines>
inline void post_lines(mlx5::WqeDataSeg* wqes, rte_mbuf** slots, rte_mbuf* const* fresh,
                       uint64_t offset, uint64_t head) {
    constexpr uint32_t kCount = Lines * kWqesPerLine;
    memcpy(slots, fresh, kCount * sizeof *slots); // NOLINT(bugprone-sizeof-expression): pointers
    const DataSegments<kCount> segments(fresh, offset, head);
#pragma GCC unroll 8
    for (uint32_t wqe = 0; wqe < kWqesPerLine; wqe += 2) {
        rte_compiler_barrier(); // compilers would group neighbouring stores
#pragma GCC unroll 8
        for (uint32_t line = 0; line < Lines; ++line)
            segments.store_two(wqes, line * kWqesPerLine + wqe);
    }
}

/// Replaces the missing buffers in batches. False: the pool's buffers do not all lie in one memory
/// region at a known distance from their mbufs, the lcore's cache holds too few, or the ring's end
/// is near.
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
    const uint64_t offset = ring.data_offset, head = ring.wqe_head;
    constexpr uint32_t kTogether = kLines * kWqesPerLine;
    uint32_t i = 0;
    for (; i + kTogether <= count; i += kTogether)
        post_lines<kLines>(&wqes[i], &slots[i], &fresh[i], offset, head);
    for (; i < count; i += kWqesPerLine)
        post_lines<1>(&wqes[i], &slots[i], &fresh[i], offset, head);
    cache->len -= count;
    ring.producer = static_cast<uint16_t>(ring.producer + count);
    ring.nombuf_due = 0;
    ring.ring_doorbell();
    return true;
}

} // namespace
} // namespace rawqp::mlx5rings
