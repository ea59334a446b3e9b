// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/pool_layout.hpp"

#include <algorithm>

namespace rawqp {
namespace {

/// Prefetch distance in mbufs: without it, a walk waits for memory at each one.
constexpr size_t kAhead = 12;

/// RingHost::buffer_offset, determined by looking at each mbuf.
uint32_t walk_buffers(rte_mempool* pool) {
    struct Walk {
        uintptr_t offset;
        bool common;
        size_t ahead; ///< bytes to an mbuf some steps ahead, in pools of the usual layout
    };
    // The layout of rte_pktmbuf_pool_create; applications may have initialised mbufs differently.
    Walk walk{sizeof(rte_mbuf) + rte_pktmbuf_priv_size(pool),
              (rte_pktmbuf_priv_flags(pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) == 0,
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
    return walk.common ? static_cast<uint32_t>(walk.offset) : 0;
}

} // namespace

uint32_t RingHost::buffer_offset(rte_mempool* pool, uint32_t generation) {
    const std::lock_guard lock(layouts_mutex_);
    const uint32_t size = pool->populated_size; // before the walk: it may be growing
    // Another pool may have the address of one that is gone: then the generation differs.
    for (const Layout& known : layouts_)
        if (known.pool == pool && known.size == size && known.generation == generation)
            return known.buffer_offset;
    const uint32_t found = walk_buffers(pool);
    // Zero is not kept: it may be due to mbufs that are attached to others just now.
    if (found != 0) layouts_[next_layout_++ % layouts_.size()] = {pool, size, generation, found};
    return found;
}

uint16_t common_data_offset(rte_mempool* pool, uint16_t headroom, MrCache& mrs) {
    const MrTable& table = mrs.table();
    const uint32_t buffer = ring_host(table.port_id()).buffer_offset(pool, table.generation());
    const bool fits = buffer != 0 && buffer + headroom <= UINT16_MAX;
    return static_cast<uint16_t>(fits ? buffer + headroom : 0);
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
    const MrCache::Change change(mrs);
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
