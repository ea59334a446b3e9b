// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/floor_queue.hpp"

#include "common/lines.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <immintrin.h>
#include <stdexcept>

namespace perf {

FloorAhead FloorAhead::best(Distance distance) {
    if (distance == Distance::cold) return {.rx = 32, .tx = 8, .claim = {}};
    if (distance == Distance::far) return {.rx = 64, .tx = 0, .claim = 32};
    return {.rx = 64, .tx = 0, .claim = {}};
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

void FloorRx::post_all(uint32_t lkey) {
    if (!__builtin_cpu_supports("avx2"))
        throw std::runtime_error("floor: this CPU lacks AVX2, by which the floor stores");
    for (uint32_t i = 0; i <= mask; ++i)
        wqes[i] = {.byte_count = uint32_t{RTE_MBUF_DEFAULT_DATAROOM},
                   .lkey = lkey,
                   .addr = uint64_t{fresh_data(mbufs[i])}};
    std::memcpy(&wqe_head, wqes, sizeof(wqe_head));
    producer = static_cast<uint16_t>(mask + 1);
    __atomic_store_n(&doorbell->receive.raw, __builtin_bswap32(producer), __ATOMIC_RELEASE);
}

namespace {

constexpr uint32_t kWqesPerLine = RTE_CACHE_LINE_SIZE / sizeof(mlx5::WqeDataSeg);
constexpr uint32_t kHeadSegments = 2; // of an eMPW WQE, before its data segments

/// A new mbuf's WQE. `head`: what precedes the address, identical in all.
inline __m128i wqe_of(uint64_t head, const rte_mbuf* mbuf) {
    return _mm_set_epi64x(static_cast<int64_t>(__builtin_bswap64(fresh_data(mbuf))),
                          static_cast<int64_t>(head));
}

[[gnu::target("avx2")]] inline void write_two_wqes(const FloorRx& queue, uint32_t slot) {
    rte_mbuf* const* const mbufs = &queue.mbufs[slot];
    _mm256_store_si256(
        reinterpret_cast<__m256i*>(&queue.wqes[slot]),
        _mm256_set_m128i(wqe_of(queue.wqe_head, mbufs[1]), wqe_of(queue.wqe_head, mbufs[0])));
}

/// Complete WQEs of new mbufs in the slots from `first` on. Stores to the start of each line come
/// first: the CPU then waits for several lines in parallel, and the other stores find lines that it
/// owns.
[[gnu::target("avx2")]] inline void write_wqes(const FloorRx& queue, uint32_t first,
                                               uint32_t count) {
    const uint32_t end = first + count;
    const auto one = [&queue](uint32_t index) {
        const uint32_t slot = index & queue.mask;
        _mm_store_si128(reinterpret_cast<__m128i*>(&queue.wqes[slot]),
                        wqe_of(queue.wqe_head, queue.mbufs[slot]));
    };
    for (; first % kWqesPerLine != 0 && first != end; ++first)
        one(first);
    const uint32_t whole = (end - first) & ~(kWqesPerLine - 1);
    for (uint32_t i = 0; i < whole; i += kWqesPerLine)
        write_two_wqes(queue, (first + i) & queue.mask);
    for (uint32_t i = 2; i < whole; i += kWqesPerLine)
        write_two_wqes(queue, (first + i) & queue.mask);
    for (first += whole; first != end; ++first)
        one(first);
}

template <bool kFetch>
[[gnu::target("avx2")]] uint16_t receive(FloorRx& queue, std::vector<rte_mbuf*>& stack,
                                         const FloorAhead& distances, rte_mbuf** mbufs,
                                         uint16_t count) {
    // 32 bytes of the mbuf's first line: the rearm word pair, then type, lengths, VLAN and hash.
    const __m128i rearm =
        _mm_set_epi64x(0, RTE_PKTMBUF_HEADROOM | 1ll << 16 | 1ll << 32 | int64_t{0xffff} << 48);
    static_assert(offsetof(rte_mbuf, rx_descriptor_fields1) ==
                  offsetof(rte_mbuf, rearm_data) + sizeof(rearm));
    // From CQE bytes 32..47 the big-endian byte count to pkt_len and data_len.
    const __m128i lengths =
        _mm_setr_epi8(-1, -1, -1, -1, 15, 14, -1, -1, 15, 14, -1, -1, -1, -1, -1, -1);
    FloorCompletions cq = queue.cq; // in registers
    const uint32_t mask = queue.mask;
    rte_mbuf** const slots = queue.mbufs.data();
    count = static_cast<uint16_t>(std::min<size_t>(count, stack.size()));
    const uint32_t first = cq.consumer;
    const uint32_t ahead = distances.rx;
    if (distances.claim)
        for (uint32_t i = 0; i < count; i += kWqesPerLine)
            claim_line(&queue.wqes[(first + *distances.claim + i) & mask]);
    uint16_t got = 0;
    for (; got < count; ++got, ++cq.consumer) {
        const mlx5::Cqe* const cqe = cq.peek();
        if (cqe == nullptr) break;
        const uint32_t slot = cq.consumer & mask;
        rte_mbuf* const mbuf = slots[slot];
        if constexpr (kFetch) {
            claim_line(slots[(slot + ahead) & mask]);
            __builtin_prefetch(&cq.cqes[(cq.consumer + ahead) & cq.mask]);
        }
        mbufs[got] = mbuf;
        const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&cqe->srqn_uidx));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(&mbuf->rearm_data),
                            _mm256_set_m128i(_mm_shuffle_epi8(words, lengths), rearm));
    }
    rte_mbuf* const* fresh = stack.data() + stack.size();
    for (uint32_t i = 0; i < got; ++i)
        slots[(first + i) & mask] = *--fresh;
    write_wqes(queue, first, got);
    stack.resize(stack.size() - got);
    queue.cq.consumer = cq.consumer;
    queue.producer = static_cast<uint16_t>(queue.producer + got);
    __atomic_store_n(&cq.doorbell->consumer.raw, __builtin_bswap32(cq.consumer & 0xffffff),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&queue.doorbell->receive.raw, __builtin_bswap32(queue.producer),
                     __ATOMIC_RELEASE);
    return got;
}

/// Puts the mbufs that completed WQEs have sent on the stack.
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

inline __m128i segment_of(const rte_mbuf& mbuf, uint64_t lkey) {
    const uint64_t address = reinterpret_cast<uint64_t>(mbuf.buf_addr) + mbuf.data_off;
    const uint64_t head = lkey | __builtin_bswap32(mbuf.data_len);
    return _mm_set_epi64x(static_cast<int64_t>(__builtin_bswap64(address)),
                          static_cast<int64_t>(head));
}

/// The address of a data segment of the next WQE. The one after an even index follows it, even at
/// the ring's end.
inline void* segment_at(const FloorTx& queue, uint32_t index) {
    const uint32_t segments = (queue.mask + 1) * kWqesPerLine;
    const uint32_t segment = queue.producer * kWqesPerLine + kHeadSegments + index;
    return queue.wqes + (segment & (segments - 1)) * sizeof(mlx5::WqeDataSeg);
}

[[gnu::target("avx2")]] inline void write_two(const FloorTx& queue, rte_mbuf** mbufs,
                                              uint32_t index, uint64_t lkey) {
    _mm256_store_si256(
        static_cast<__m256i*>(segment_at(queue, index)),
        _mm256_set_m128i(segment_of(*mbufs[index + 1], lkey), segment_of(*mbufs[index], lkey)));
}

/// The data segments of a WQE. Stores to the start of each line come first: the CPU then waits for
/// several lines in parallel, and the other stores find lines that it owns.
template <bool kFetch>
[[gnu::target("avx2")]] inline void write_segments(const FloorTx& queue, rte_mbuf** mbufs,
                                                   uint32_t count, uint32_t ahead) {
    const uint64_t lkey = uint64_t{__builtin_bswap32(queue.lkey)} << 32;
    for (uint32_t i = 2; i + 1 < count; i += 4) {
        if constexpr (kFetch)
            for (uint32_t next = i - 2 + ahead; next < std::min(i + 2 + ahead, count); ++next)
                __builtin_prefetch(mbufs[next]);
        write_two(queue, mbufs, i, lkey);
    }
    for (uint32_t i = 0; i + 1 < count; i += 4)
        write_two(queue, mbufs, i, lkey);
    if (count % 2 != 0)
        _mm_store_si128(static_cast<__m128i*>(segment_at(queue, count - 1)),
                        segment_of(*mbufs[count - 1], lkey));
}

template <bool kFetch>
[[gnu::target("avx2")]] uint16_t send(FloorTx& queue, std::vector<rte_mbuf*>& stack,
                                      const FloorAhead& distances, rte_mbuf** mbufs,
                                      uint16_t count) {
    recycle(queue, stack);
    const uint32_t slot_mask = queue.mbuf_mask;
    const auto used = static_cast<uint16_t>(queue.sent - queue.freed);
    count = std::min(count, static_cast<uint16_t>(queue.mbuf_mask + 1 - used));
    if (count == 0) return 0;
    rte_mbuf** const slots = queue.mbufs.data();
    if (distances.claim)
        for (uint32_t i = *distances.claim; i < *distances.claim + count + 2u; i += kWqesPerLine)
            claim_line(queue.wqes +
                       ((queue.producer + i / kWqesPerLine) & queue.mask) * mlx5::kWqebb);
    const uint32_t ahead = std::min<uint32_t>(distances.tx, count);
    if constexpr (kFetch)
        for (uint32_t i = 0; i < ahead; ++i)
            __builtin_prefetch(mbufs[i]);
    volatile uint64_t* control_word = nullptr;
    for (uint16_t done = 0; done < count;) {
        const auto packets = static_cast<uint16_t>(
            std::min<uint32_t>(count - done, mlx5::kMaxWqeSegments - 3)); // ds is 6 bits
        const uint32_t segments = kHeadSegments + packets;
        write_segments<kFetch>(queue, mbufs + done, packets, ahead);
        uint8_t* const wqe = queue.wqes + (queue.producer & queue.mask) * mlx5::kWqebb;
        // The last word of the control segment asks for a completion.
        const auto qp_segments =
            static_cast<int>(__builtin_bswap32(queue.qp_number << 8 | segments));
        const auto opcode = static_cast<int>(__builtin_bswap32(
            uint32_t{queue.producer} << 8 | static_cast<uint32_t>(mlx5::WqeOpcode::enhanced_mpw)));
        _mm256_store_si256(
            reinterpret_cast<__m256i*>(wqe),
            _mm256_setr_epi32(opcode, qp_segments, mlx5::kCqUpdate << 24, 0, 0, 0, 0, 0));
        control_word = reinterpret_cast<volatile uint64_t*>(wqe);
        for (uint16_t i = 0; i < packets; ++i)
            slots[(queue.sent + i) & slot_mask] = mbufs[done + i];
        queue.sent = static_cast<uint16_t>(queue.sent + packets);
        queue.ends[queue.producer & queue.mask] = queue.sent;
        queue.producer = static_cast<uint16_t>(queue.producer + (segments + 3) / 4);
        done = static_cast<uint16_t>(done + packets);
    }
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
