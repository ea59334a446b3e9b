// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/floor.hpp"

#include "common/lines.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <emmintrin.h>
#include <stdexcept>
#include <tmmintrin.h>

namespace perf {
namespace {

constexpr uint32_t kWqesPerLine = RTE_CACHE_LINE_SIZE / sizeof(mlx5::WqeDataSeg);

} // namespace

FloorAhead FloorAhead::best(Distance distance) {
    if (distance == Distance::cold) return {.rx = 8, .tx = 8, .claim = {}};
    return {.rx = 32, .tx = 0, .claim = 0};
}

Floor::Floor(const std::string& device, const PortSetup& setup, const FloorAhead& ahead)
    : VerbsEnd(device, setup), rx_(setup.queues), tx_(setup.queues),
      stack_size_(size_t{setup.queues} * descriptors_ + setup.spare_mbufs), ahead_(ahead) {
    mlx5dv_context features{};
    check(mlx5dv_query_device(verbs_.front().wq->context, &features), "mlx5 device");
    if ((features.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW) == 0)
        throw std::runtime_error(device + ": no eMPW, which the floor sends by");
    for (size_t i = 0; i < verbs_.size(); ++i) {
        map_rx(verbs_[i], rx_[i]);
        map_tx(verbs_[i], tx_[i]);
    }
    ready();
}

Floor::~Floor() {
    close_queues();
    for (const RxQueue& queue : rx_)
        stack_.insert(stack_.end(), queue.mbufs.data(), queue.mbufs.data() + queue.mask + 1);
    for (TxQueue& queue : tx_)
        while (queue.freed != queue.sent)
            stack_.push_back(queue.mbufs[queue.freed++ & (descriptors_ - 1u)]);
    level_stack(0);
}

void Floor::Completions::map(const mlx5dv_cq& cq) {
    cqes = static_cast<mlx5::Cqe*>(cq.buf);
    mask = cq.cqe_cnt - 1;
    log_size = static_cast<uint32_t>(std::countr_zero(cq.cqe_cnt));
    doorbell = reinterpret_cast<mlx5::CqDoorbell*>(cq.dbrec);
}

inline const mlx5::Cqe* Floor::Completions::peek() const {
    const mlx5::Cqe& cqe = cqes[consumer & mask];
    const uint8_t owner = __atomic_load_n(&cqe.op_own, __ATOMIC_ACQUIRE);
    const bool there =
        ((owner ^ consumer >> log_size) & mlx5::kOwnerMask) == 0 && owner >> 4 != 0xf;
    return there ? &cqe : nullptr;
}

void Floor::map_rx(const VerbsQueue& verbs, RxQueue& queue) {
    mlx5dv_cq cq{};
    mlx5dv_rwq rwq{};
    mlx5dv_obj object{};
    object.cq = {verbs.rx_cq.get(), &cq};
    object.rwq = {verbs.wq.get(), &rwq};
    check(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ | MLX5DV_OBJ_RWQ), "map Rx rings");
    queue.cq.map(cq);
    queue.mask = rwq.wqe_cnt - 1;
    queue.doorbell = reinterpret_cast<mlx5::QueueDoorbell*>(rwq.dbrec);
    queue.wqes = static_cast<mlx5::WqeDataSeg*>(rwq.buf);
    queue.mbufs = RingArray<rte_mbuf*>(rwq.wqe_cnt, socket_);
    check(-rte_pktmbuf_alloc_bulk(pool(), queue.mbufs.data(), rwq.wqe_cnt), "Rx mbufs");
    for (uint32_t i = 0; i < rwq.wqe_cnt; ++i)
        queue.wqes[i] = {.byte_count = uint32_t{RTE_MBUF_DEFAULT_DATAROOM},
                         .lkey = lkey_,
                         .addr = uint64_t{fresh_data(queue.mbufs[i])}};
    queue.producer = static_cast<uint16_t>(rwq.wqe_cnt);
    __atomic_store_n(&queue.doorbell->receive.raw, __builtin_bswap32(queue.producer),
                     __ATOMIC_RELEASE);
}

void Floor::map_tx(const VerbsQueue& verbs, TxQueue& queue) {
    mlx5dv_cq cq{};
    mlx5dv_qp qp{};
    mlx5dv_obj object{};
    object.cq = {verbs.tx_cq.get(), &cq};
    object.qp = {verbs.tx_qp.get(), &qp};
    check(mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP), "map Tx rings");
    queue.cq.map(cq);
    queue.mask = qp.sq.wqe_cnt - 1;
    queue.doorbell = reinterpret_cast<mlx5::QueueDoorbell*>(qp.dbrec);
    queue.wqes = static_cast<uint8_t*>(qp.sq.buf);
    queue.uar = static_cast<volatile uint64_t*>(qp.bf.reg);
    queue.qp_number = verbs.tx_qp->qp_num;
    queue.mbufs = RingArray<rte_mbuf*>(descriptors_, socket_);
    queue.ends = RingArray<uint16_t>(qp.sq.wqe_cnt, socket_);
}

template <bool kFetch> uint16_t Floor::rx(RxQueue& queue, rte_mbuf** mbufs, uint16_t count) {
    // Fields of the mbuf's first line: the rearm word pair, then type, lengths, VLAN and hash.
    const __m128i rearm =
        _mm_set_epi64x(0, RTE_PKTMBUF_HEADROOM | 1ll << 16 | 1ll << 32 | int64_t{0xffff} << 48);
    // From CQE bytes 32..47 the big-endian byte count to pkt_len and data_len.
    const __m128i lengths =
        _mm_setr_epi8(-1, -1, -1, -1, 15, 14, -1, -1, 15, 14, -1, -1, -1, -1, -1, -1);
    Completions cq = queue.cq; // in registers
    const uint32_t mask = queue.mask;
    rte_mbuf** const slots = queue.mbufs.data();
    mlx5::WqeDataSeg* const wqes = queue.wqes;
    count = static_cast<uint16_t>(std::min<size_t>(count, stack_.size()));
    const uint32_t first = cq.consumer;
    const uint32_t ahead = ahead_.rx;
    if (ahead_.claim)
        for (uint32_t i = 0; i < count; i += kWqesPerLine)
            claim_line(&wqes[(first + *ahead_.claim + i) & mask]);
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
    rte_mbuf* const* fresh = stack_.data() + stack_.size();
    for (uint32_t i = 0; i < got; ++i)
        slots[(first + i) & mask] = *--fresh;
    for (uint32_t i = 0; i < got; ++i)
        wqes[(first + i) & mask].addr.raw =
            __builtin_bswap64(fresh_data(slots[(first + i) & mask]));
    stack_.resize(stack_.size() - got);
    queue.cq.consumer = cq.consumer;
    queue.producer = static_cast<uint16_t>(queue.producer + got);
    __atomic_store_n(&cq.doorbell->consumer.raw, __builtin_bswap32(cq.consumer & 0xffffff),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&queue.doorbell->receive.raw, __builtin_bswap32(queue.producer),
                     __ATOMIC_RELEASE);
    return got;
}

/// Puts what completed WQEs have sent on the stack.
inline void Floor::recycle(TxQueue& queue) {
    const uint32_t before = queue.cq.consumer;
    uint16_t end = queue.freed;
    while (const mlx5::Cqe* const cqe = queue.cq.peek()) {
        if (cqe->op_own >> 4 != 0) fail("a send failed: error completion", EIO);
        end = queue.ends[__builtin_bswap16(cqe->wqe_counter.raw) & queue.mask];
        ++queue.cq.consumer;
    }
    if (queue.cq.consumer == before) return;
    __atomic_store_n(&queue.cq.doorbell->consumer.raw,
                     __builtin_bswap32(queue.cq.consumer & 0xffffff), __ATOMIC_RELEASE);
    while (queue.freed != end) {
        const uint32_t slot = queue.freed & (descriptors_ - 1u);
        const auto run = static_cast<uint16_t>(
            std::min<uint32_t>(static_cast<uint16_t>(end - queue.freed), descriptors_ - slot));
        rte_mbuf** const first = &queue.mbufs[slot];
        stack_.insert(stack_.end(), first, first + run);
        queue.freed = static_cast<uint16_t>(queue.freed + run);
    }
}

template <bool kFetch> uint16_t Floor::tx(TxQueue& queue, rte_mbuf** mbufs, uint16_t count) {
    recycle(queue);
    const uint32_t slot_mask = descriptors_ - 1u;
    const auto used = static_cast<uint16_t>(queue.sent - queue.freed);
    count = std::min(count, static_cast<uint16_t>(descriptors_ - used));
    const uint64_t lkey = uint64_t{__builtin_bswap32(lkey_)} << 32;
    rte_mbuf** const slots = queue.mbufs.data();
    uint32_t sent = queue.sent; // in a register: what is stored below might alias the queue
    if (ahead_.claim)
        for (uint32_t i = *ahead_.claim; i < *ahead_.claim + count + 2u; i += kWqesPerLine)
            claim_line(queue.wqes +
                       ((queue.producer + i / kWqesPerLine) & queue.mask) * mlx5::kWqebb);
    const uint32_t ahead = std::min<uint32_t>(ahead_.tx, count);
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

template uint16_t Floor::rx<true>(RxQueue&, rte_mbuf**, uint16_t);
template uint16_t Floor::rx<false>(RxQueue&, rte_mbuf**, uint16_t);
template uint16_t Floor::tx<true>(TxQueue&, rte_mbuf**, uint16_t);
template uint16_t Floor::tx<false>(TxQueue&, rte_mbuf**, uint16_t);

} // namespace perf
