// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/pool_layout.hpp"

#include <algorithm>

namespace rawqp {
namespace {

/// Mbufs from the one looked at to the one fetched: one by one, a walk waits for memory each time.
constexpr size_t kAhead = 12;

} // namespace

uint16_t common_data_offset(rte_mempool* pool, uint16_t headroom) {
    struct Walk {
        uintptr_t offset;
        bool common;
        size_t ahead; ///< bytes to an mbuf some steps on, in pools laid out as they mostly are
    };
    // The layout of rte_pktmbuf_pool_create; applications may have initialised mbufs otherwise.
    const uintptr_t buffer = sizeof(rte_mbuf) + rte_pktmbuf_priv_size(pool);
    Walk walk{buffer,
              (rte_pktmbuf_priv_flags(pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) == 0 &&
                  buffer + headroom <= UINT16_MAX,
              kAhead * (pool->header_size + pool->elt_size + pool->trailer_size)};
    rte_mempool_obj_iter(
        pool,
        [](rte_mempool*, void* opaque, void* object, unsigned) {
            auto& state = *static_cast<Walk*>(opaque);
            const auto* const later = static_cast<const char*>(object) + state.ahead;
            rte_prefetch0(later);
            rte_prefetch0(later - sizeof(rte_mempool_objhdr));
            const auto buffer_at =
                reinterpret_cast<uintptr_t>(static_cast<rte_mbuf*>(object)->buf_addr);
            if (buffer_at - reinterpret_cast<uintptr_t>(object) != state.offset)
                state.common = false;
        },
        &walk);
    return walk.common ? static_cast<uint16_t>(buffer + headroom) : 0;
}

uint32_t common_lkey(rte_mempool* pool, MrCache& mrs) {
    if (rte_pktmbuf_priv_flags(pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) return 0;
    struct Walk {
        MrCache& mrs;
        uint32_t lkey_be = 0;
        bool common = true;
    } walk{mrs};
    rte_mempool_mem_iter(
        pool,
        [](rte_mempool*, void* opaque, rte_mempool_memhdr* chunk, unsigned index) {
            auto& state = *static_cast<Walk*>(opaque);
            const auto start = reinterpret_cast<uintptr_t>(chunk->addr);
            const MrEntry* mr = state.mrs.find(start);
            const bool inside = mr != nullptr && start + chunk->len <= mr->end;
            if (!inside || (index > 0 && mr->lkey_be != state.lkey_be)) state.common = false;
            if (inside) state.lkey_be = mr->lkey_be;
        },
        &walk);
    return walk.common ? walk.lkey_be : 0;
}

void PoolKeys::clear() { *this = {}; }

uint32_t PoolKeys::miss(rte_mempool* pool, MrCache& mrs) {
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [pool](const Entry& entry) { return entry.is(pool); });
    if (known != known_.end()) {
        last_ = *known;
    } else {
        const uint32_t size = pool->populated_size; // before the look: it may be growing
        last_ = {pool, size, common_lkey(pool, mrs)};
        known_[next_++ % known_.size()] = last_;
    }
    return last_.lkey_be;
}

} // namespace rawqp
