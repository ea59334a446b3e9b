// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/floor_queue.hpp"

#include "common/lines.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <emmintrin.h>
#include <stdexcept>
#include <tmmintrin.h>

namespace perf {

FloorAhead FloorAhead::best(Distance distance) {
    if (distance == Distance::cold) return {.rx = 8, .tx = 8, .claim = {}};
    return {.rx = 32, .tx = 0, .claim = 0};
}

void FloorCompletions::map(const mlx5dv_cq& cq) {
    cqes = static_cast<mlx5::Cqe*>(cq.buf);
    mask = cq.cqe_cnt - 1;
    log_size = static_cast<uint32_t>(std::countr_zero(cq.cqe_cnt));
    doorbell = reinterpret_cast<mlx5::CqDoorbell*>(cq.dbrec);
}

inline const mlx5::Cqe* FloorCompletions::peek() const {
    const mlx5::Cqe& cqe = cqes[consumer & mask];
    const uint8_t owner = __atomic_load_n(&cqe.op_own, __ATOMIC_ACQUIRE);
    const bool there =
        ((owner ^ consumer >> log_size) & mlx5::kOwnerMask) == 0 && owner >> 4 != 0xf;
    return there ? &cqe : nullptr;
}

namespace {

constexpr uint32_t kWqesPerLine = RTE_CACHE_LINE_SIZE / sizeof(mlx5::WqeDataSeg);

template <bool kFetch>
uint16_t receive(FloorRx& queue, std::vector<rte_mbuf*>& stack, const FloorAhead& distances,
                 rte_mbuf** mbufs, uint16_t count) {
    // Fields of the mbuf's first line: the rearm word pair, then type, lengths, VLAN and hash.
    const __m128i rearm =
        _mm_set_epi64x(0, RTE_PKTMBUF_HEADROOM | 1ll << 16 | 1ll << 32 | int64_t{0xffff} << 48);
    // From CQE bytes 32..47 the big-endian byte count to pkt_len and data_len.
    const __m128i lengths =
        _mm_setr_epi8(-1, -1, -1, -1, 15, 14, -1, -1, 15, 14, -1, -1, -1, -1, -1, -1);
    FloorCompletions cq = queue.cq; // in registers
    const uint32_t mask = queue.mask;
    rte_mbuf** const slots = queue.mbufs.data();
    mlx5::WqeDataSeg* const wqes = queue.wqes;
    count = static_cast<uint16_t>(std::min<size_t>(count, stack.size()));
    const uint32_t first = cq.consumer;
    const uint32_t ahead = distances.rx;
    if (distances.claim)
        for (uint32_t i = 0; i < count; i += kWqesPerLine)
            claim_line(&wqes[(first + *distances.claim + i) & mask]);
    uint16_t got = 0;
    for (; got < count; ++got, ++cq.consumer) {
        const mlx5::Cqe* const cqe = cq.peek();
        if (cqe == nullptr) break;
        const uint32_t slot = cq.consumer & mask;
        rte_mbuf* const mbuf = slots[slot];
        if constexpr (kFetch) {
            __builtin_prefetch(slots[(slot + ahead) & mask], 1);
            __builtin_prefetch(&cq.cqes[(cq.consumer + ahead) & cq.mask]);
        }
        mbufs[got] = mbuf;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(&mbuf->rearm_data), rearm);
        const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&cqe->srqn_uidx));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(&mbuf->rx_descriptor_fields1),
                         _mm_shuffle_epi8(words, lengths));
    }
    rte_mbuf* const* fresh = stack.data() + stack.size();
    for (uint32_t i = 0; i < got; ++i)
        slots[(first + i) & mask] = *--fresh;
    for (uint32_t i = 0; i < got; ++i)
        wqes[(first + i) & mask].addr.raw =
            __builtin_bswap64(fresh_data(slots[(first + i) & mask]));
    stack.resize(stack.size() - got);
    queue.cq.consumer = cq.consumer;
    queue.producer = static_cast<uint16_t>(queue.producer + got);
    __atomic_store_n(&cq.doorbell->consumer.raw, __builtin_bswap32(cq.consumer & 0xffffff),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&queue.doorbell->receive.raw, __builtin_bswap32(queue.producer),
                     __ATOMIC_RELEASE);
    return got;
}

/// Puts what completed WQEs have sent on the stack.
[[gnu::always_inline]] inline void recycle(FloorTx& queue, std::vector<rte_mbuf*>& stack) {
    const uint32_t before = queue.cq.consumer;
    uint16_t end = queue.freed;
    while (const mlx5::Cqe* const cqe = queue.cq.peek()) {
        if (cqe->op_own >> 4 != 0)
            throw std::runtime_error("floor: a send failed: error completion");
        end = queue.ends[__builtin_bswap16(cqe->wqe_counter.raw) & queue.mask];
        ++queue.cq.consumer;
    }
    if (queue.cq.consumer == before) return;
    __atomic_store_n(&queue.cq.doorbell->consumer.raw,
                     __builtin_bswap32(queue.cq.consumer & 0xffffff), __ATOMIC_RELEASE);
    while (queue.freed != end) {
        const uint32_t slot = queue.freed & (queue.mbuf_mask);
        const auto run = static_cast<uint16_t>(std::min<uint32_t>(
            static_cast<uint16_t>(end - queue.freed), queue.mbuf_mask + 1 - slot));
        rte_mbuf** const first = &queue.mbufs[slot];
        stack.insert(stack.end(), first, first + run);
        queue.freed = static_cast<uint16_t>(queue.freed + run);
    }
}

template <bool kFetch>
uint16_t send(FloorTx& queue, std::vector<rte_mbuf*>& stack, const FloorAhead& distances,
              rte_mbuf** mbufs, uint16_t count) {
    recycle(queue, stack);
    const uint32_t slot_mask = queue.mbuf_mask;
    const auto used = static_cast<uint16_t>(queue.sent - queue.freed);
    count = std::min(count, static_cast<uint16_t>(queue.mbuf_mask + 1 - used));
    const uint64_t lkey = uint64_t{__builtin_bswap32(queue.lkey)} << 32;
    rte_mbuf** const slots = queue.mbufs.data();
    uint32_t sent = queue.sent; // in a register: what is stored below might alias the queue
    if (distances.claim)
        for (uint32_t i = *distances.claim; i < *distances.claim + count + 2u; i += kWqesPerLine)
            claim_line(queue.wqes +
                       ((queue.producer + i / kWqesPerLine) & queue.mask) * mlx5::kWqebb);
    const uint32_t ahead = std::min<uint32_t>(distances.tx, count);
    if constexpr (kFetch)
        for (uint32_t i = 0; i < ahead; ++i)
            __builtin_prefetch(mbufs[i]);
    for (uint32_t i = 0; i < count; ++i)
        slots[sent++ & slot_mask] = mbufs[i];
    sent = queue.sent;
    uint16_t done = 0;
    volatile uint64_t* control_word = nullptr;
    while (done < count) {
        const auto packets = static_cast<uint16_t>(
            std::min<uint32_t>(count - done, mlx5::kMaxWqeSegments - 3)); // ds is 6 bits
        const uint32_t segments = 2u + packets;
        uint8_t* const wqe = queue.wqes + (queue.producer & queue.mask) * mlx5::kWqebb;
        uint8_t* const end = queue.wqes + (queue.mask + 1) * mlx5::kWqebb;
        // The last word of the control segment asks for a completion.
        const auto qp_segments =
            static_cast<int>(__builtin_bswap32(queue.qp_number << 8 | segments));
        const auto opcode = static_cast<int>(__builtin_bswap32(
            uint32_t{queue.producer} << 8 | static_cast<uint32_t>(mlx5::WqeOpcode::enhanced_mpw)));
        auto* to = reinterpret_cast<__m128i*>(wqe);
        _mm_store_si128(to++, _mm_setr_epi32(opcode, qp_segments, mlx5::kCqUpdate << 24, 0));
        _mm_store_si128(to++, _mm_setzero_si128());
        for (uint16_t i = 0; i < packets; ++i) {
            if (to == reinterpret_cast<__m128i*>(end)) to = reinterpret_cast<__m128i*>(queue.wqes);
            const rte_mbuf* const mbuf = mbufs[done + i];
            if constexpr (kFetch)
                if (done + i + ahead < count) __builtin_prefetch(mbufs[done + i + ahead]);
            ++sent;
            const uint64_t address = reinterpret_cast<uint64_t>(mbuf->buf_addr) + mbuf->data_off;
            const uint64_t head = lkey | __builtin_bswap32(mbuf->data_len);
            _mm_store_si128(to++, _mm_set_epi64x(static_cast<int64_t>(__builtin_bswap64(address)),
                                                 static_cast<int64_t>(head)));
        }
        control_word = reinterpret_cast<volatile uint64_t*>(wqe);
        queue.ends[queue.producer & queue.mask] = static_cast<uint16_t>(sent);
        queue.producer = static_cast<uint16_t>(queue.producer + (segments + 3) / 4);
        done = static_cast<uint16_t>(done + packets);
    }
    if (control_word == nullptr) return 0;
    queue.sent = static_cast<uint16_t>(sent);
    std::atomic_thread_fence(std::memory_order_release);
    __atomic_store_n(&queue.doorbell->send.raw, __builtin_bswap32(queue.producer),
                     __ATOMIC_RELEASE);
    _mm_sfence();
    *queue.uar = *control_word;
    _mm_sfence();
    return count;
}

} // namespace

uint16_t receive(FloorRx& queue, std::vector<rte_mbuf*>& stack, const FloorAhead& distances,
                 rte_mbuf** mbufs, uint16_t count) {
    return distances.rx != 0 ? receive<true>(queue, stack, distances, mbufs, count)
                             : receive<false>(queue, stack, distances, mbufs, count);
}

uint16_t send(FloorTx& queue, std::vector<rte_mbuf*>& stack, const FloorAhead& distances,
              rte_mbuf** mbufs, uint16_t count) {
    return distances.tx != 0 ? send<true>(queue, stack, distances, mbufs, count)
                             : send<false>(queue, stack, distances, mbufs, count);
}

} // namespace perf
