// SPDX-License-Identifier: BSD-3-Clause
// The frees are not inline in the header: DPDK's own inline functions make them so large that each
// source with them adds 5 s to the sanitized build, and the linker would choose among copies
// compiled for different instruction sets.
#include "drivers/net/rawqp/rings/tx_mbufs.hpp"

#include "drivers/net/rawqp/rings/ahead.hpp"
#include "drivers/net/rawqp/rings/striding_buffers.hpp"

namespace rawqp {
namespace {

void fetch(const rte_mbuf* mbuf) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(mbuf);
    rte_prefetch0(bytes);
    rte_prefetch0(bytes + RTE_CACHE_LINE_SIZE);
}

// Any mbufs: shared, attached, of several pools. Neighbours of one pool go back together.
void free_segments(rte_mbuf** segments, uint16_t count) {
    constexpr unsigned kBatch = 64;
    rte_mbuf* batch[kBatch];
    unsigned filled = 0;
    StridingDetacher detacher;
    for (unsigned i = 0; i < RTE_MIN(ahead::kFreedMbufs, unsigned{count}); ++i)
        fetch(segments[i]);
    for (unsigned i = 0; i < count; ++i) {
        if (i + ahead::kFreedMbufs < count) fetch(segments[i + ahead::kFreedMbufs]);
        rte_mbuf* segment = segments[i];
        if (!detacher.detach(*segment)) segment = rte_pktmbuf_prefree_seg(segment);
        if (segment == nullptr) continue; // somebody else still holds it
        if (filled == kBatch || (filled > 0 && segment->pool != batch[0]->pool)) {
            rte_mempool_put_bulk(batch[0]->pool, reinterpret_cast<void**>(batch), filled);
            filled = 0;
        }
        batch[filled++] = segment;
    }
    if (filled > 0) rte_mempool_put_bulk(batch[0]->pool, reinterpret_cast<void**>(batch), filled);
}

} // namespace

void TxMbufs::free_until(uint16_t end, rte_mempool* pool) {
    while (tail_ != end) {
        const uint16_t first = tail_ & mask_;
        const uint16_t wanted = static_cast<uint16_t>(end - tail_);
        const uint16_t run = RTE_MIN(wanted, static_cast<uint16_t>(mask_ + 1 - first));
        tail_ = static_cast<uint16_t>(tail_ + run);
        // Another process may go on with the ring if this one is killed here: these mbufs are then
        // lost rather than freed twice.
        rte_compiler_barrier();
        if (pool != nullptr)
            rte_mempool_put_bulk(pool, reinterpret_cast<void**>(&slots_[first]), run);
        else
            free_segments(&slots_[first], run);
    }
}

} // namespace rawqp
