// SPDX-License-Identifier: BSD-3-Clause
// The two measured loops of the floor.
#include "app/rawqp-perf/floor.hpp"

#include <algorithm>
#include <atomic>
#include <emmintrin.h>
#include <tmmintrin.h>

namespace perf {
namespace {

constexpr uint32_t kAhead = 8; // packets between the prefetch of a line and its use

} // namespace

uint16_t Floor::rx(uint16_t, rte_mbuf** mbufs, uint16_t count) {
    // Fields of the mbuf's first line: the rearm word pair, then type, lengths, VLAN and hash.
    const __m128i rearm =
        _mm_set_epi64x(0, RTE_PKTMBUF_HEADROOM | 1ll << 16 | 1ll << 32 | int64_t{0xffff} << 48);
    // From CQE bytes 32..47 the big-endian byte count to pkt_len and data_len.
    const __m128i lengths =
        _mm_setr_epi8(-1, -1, -1, -1, 15, 14, -1, -1, 15, 14, -1, -1, -1, -1, -1, -1);
    const uint32_t wqe_mask = rx_.mask, cq_mask = rx_.cq_mask, log_cqes = rx_.log_cqes;
    uint32_t at = rx_.consumer;
    uint16_t got = 0;
    count = static_cast<uint16_t>(std::min<size_t>(count, stack_.size()));
    rte_mbuf** const elements = elements_.data();
    mlx5::WqeDataSeg* const wqes = rx_wqes_;
    const mlx5::Cqe* const cqes = rx_.cqes;
    rte_mbuf* const* fresh_end = stack_.data() + stack_.size();
    for (; got < count; ++got, ++at) {
        const mlx5::Cqe& cqe = cqes[at & cq_mask];
        const uint8_t owner = __atomic_load_n(&cqe.op_own, __ATOMIC_ACQUIRE);
        if (((owner ^ at >> log_cqes) & mlx5::kOwnerMask) != 0 || owner >> 4 == 0xf) break;
        rte_mbuf* const mbuf = elements[at & wqe_mask];
        __builtin_prefetch(elements[(at + kAhead) & wqe_mask], 1);
        __builtin_prefetch(&cqes[(at + kAhead) & cq_mask]);
        mbufs[got] = mbuf;
        _mm_storeu_si128(reinterpret_cast<__m128i*>(&mbuf->rearm_data), rearm);
        const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&cqe.srqn_uidx));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(&mbuf->rx_descriptor_fields1),
                         _mm_shuffle_epi8(words, lengths));
        rte_mbuf* const fresh = *--fresh_end;
        elements[at & wqe_mask] = fresh;
        // Every mbuf of our pool has its buffer right behind it: no need to touch the mbuf.
        wqes[at & wqe_mask].addr.raw =
            __builtin_bswap64(reinterpret_cast<uint64_t>(fresh + 1) + RTE_PKTMBUF_HEADROOM);
    }
    stack_.resize(stack_.size() - got);
    rx_.consumer = at;
    rx_.producer = static_cast<uint16_t>(rx_.producer + got);
    __atomic_store_n(&rx_.cq_doorbell->consumer.raw, __builtin_bswap32(at & 0xffffff),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&rx_.doorbell->receive.raw, __builtin_bswap32(rx_.producer), __ATOMIC_RELEASE);
    return got;
}

uint16_t Floor::tx(uint16_t, rte_mbuf** mbufs, uint16_t count) {
    uint16_t done = 0;
    volatile uint64_t* control_word = nullptr;
    while (done < count) {
        const auto packets = static_cast<uint16_t>(
            std::min<uint32_t>(count - done, mlx5::kMaxWqeSegments - 3)); // ds is 6 bits
        const uint32_t segments = 2u + packets;
        uint8_t* const wqe = tx_wqes_ + (tx_.producer & tx_.mask) * mlx5::kWqebb;
        uint8_t* const end = tx_wqes_ + (tx_.mask + 1) * mlx5::kWqebb;
        // The last word of the control segment asks for a completion.
        const auto qp_segments =
            static_cast<int>(__builtin_bswap32(tx_qp_->qp_num << 8 | segments));
        const auto opcode = static_cast<int>(__builtin_bswap32(
            uint32_t{tx_.producer} << 8 | static_cast<uint32_t>(mlx5::WqeOpcode::enhanced_mpw)));
        auto* to = reinterpret_cast<__m128i*>(wqe);
        _mm_store_si128(to++, _mm_setr_epi32(opcode, qp_segments, mlx5::kCqUpdate << 24, 0));
        _mm_store_si128(to++, _mm_setzero_si128());
        for (uint16_t i = 0; i < packets; ++i) {
            if (to == reinterpret_cast<__m128i*>(end)) to = reinterpret_cast<__m128i*>(tx_wqes_);
            const rte_mbuf* const mbuf = mbufs[done + i];
            const uint64_t address = reinterpret_cast<uint64_t>(mbuf->buf_addr) + mbuf->data_off;
            const uint64_t head = uint64_t{lkey_be_} << 32 | __builtin_bswap32(mbuf->data_len);
            _mm_store_si128(to++, _mm_set_epi64x(static_cast<int64_t>(__builtin_bswap64(address)),
                                                 static_cast<int64_t>(head)));
        }
        control_word = reinterpret_cast<volatile uint64_t*>(wqe);
        tx_.producer = static_cast<uint16_t>(tx_.producer + (segments + 3) / 4);
        done = static_cast<uint16_t>(done + packets);
    }
    if (control_word == nullptr) return 0;
    std::atomic_thread_fence(std::memory_order_release);
    __atomic_store_n(&tx_.doorbell->send.raw, __builtin_bswap32(tx_.producer), __ATOMIC_RELEASE);
    _mm_sfence();
    *uar_ = *control_word;
    _mm_sfence();
    sent_.insert(sent_.end(), mbufs, mbufs + count);
    return count;
}

} // namespace perf
