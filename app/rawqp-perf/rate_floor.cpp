// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/rate_floor.hpp"

#include "common/lines.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <emmintrin.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>

namespace perf {
namespace {

uint16_t posted(const net::be32& record) {
    return static_cast<uint16_t>(__builtin_bswap32(__atomic_load_n(&record.raw, __ATOMIC_ACQUIRE)));
}

template <class Ask> void for_each_line(const uint8_t* data, uint32_t bytes, Ask ask) {
    for (uint32_t at = 0; at < bytes; at += RTE_CACHE_LINE_SIZE)
        ask(data + at);
}

void fetch(const uint8_t* data, uint32_t bytes) {
    for_each_line(data, bytes, [](const uint8_t* line) { __builtin_prefetch(line); });
}

} // namespace

RateFloor::RateFloor(unsigned device_cpu, const PortSetup& setup, const MoverAhead& mover)
    : pool_(make_pool("rate_floor", 2 * Port::mbufs(setup))),
      socket_(ring_socket(1, std::bit_ceil(setup.descriptors), setup.heap)), mover_(mover) {
    stack_.reserve(2 * size_t{Port::mbufs(setup)});
    map(std::bit_ceil(setup.descriptors));
    thread_ = std::thread([this] { work(); });
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(device_cpu, &cpus);
    if (const int status = pthread_setaffinity_np(thread_.native_handle(), sizeof cpus, &cpus)) {
        stop_ = true;
        thread_.join();
        throw std::runtime_error(
            fmt::format("rings: CPU {} for the thread: {}", device_cpu, strerror(status)));
    }
}

RateFloor::~RateFloor() {
    stop_ = true;
    thread_.join();
}

void RateFloor::map(uint16_t descriptors) {
    records_ = RingArray<Records>(1, socket_);
    rx_cqes_ = RingArray<mlx5::Cqe>(descriptors, socket_);
    tx_cqes_ = RingArray<mlx5::Cqe>(descriptors, socket_);
    rx_wqes_ = RingArray<mlx5::WqeDataSeg>(descriptors, socket_);
    const uint32_t wqebbs = descriptors;
    tx_wqes_ = RingArray<uint8_t>(wqebbs * mlx5::kWqebb, socket_);
    for (uint32_t i = 0; i < descriptors; ++i)
        rx_cqes_[i].op_own = tx_cqes_[i].op_own = 0xf0;
    const auto log = static_cast<uint32_t>(std::countr_zero(descriptors));
    Records& records = records_[0];
    rx_.cq = {rx_cqes_.data(), &records.rx_cq, descriptors - 1u, log, 0};
    rx_.wqes = rx_wqes_.data();
    rx_.doorbell = &records.rx;
    rx_.mask = descriptors - 1u;
    rx_.mbufs = RingArray<rte_mbuf*>(descriptors, socket_);
    tx_.cq = {tx_cqes_.data(), &records.tx_cq, descriptors - 1u, log, 0};
    tx_.wqes = tx_wqes_.data();
    tx_.doorbell = &records.tx;
    tx_.uar = &records.uar;
    tx_.mask = wqebbs - 1;
    tx_.mbuf_mask = descriptors - 1u;
    tx_.mbufs = RingArray<rte_mbuf*>(descriptors, socket_);
    tx_.ends = RingArray<uint16_t>(wqebbs, socket_);
    if (rte_pktmbuf_alloc_bulk(pool(), rx_.mbufs.data(), descriptors) != 0) throw std::bad_alloc();
    rx_.post_all(1);
    stack_.resize(2 * descriptors);
    if (rte_pktmbuf_alloc_bulk(pool(), stack_.data(), 2 * descriptors) != 0) throw std::bad_alloc();
}

void RateFloor::work() {
    const net::be32& doorbell = records_[0].tx.send;
    while (!stop_.load(std::memory_order_relaxed)) {
        const uint16_t end = posted(doorbell);
        if (end == sq_) {
            rte_pause();
            continue;
        }
        const uint32_t count = gather(end);
        if (!await_room(count)) return;
        place(count);
        complete_sends();
    }
}

uint32_t RateFloor::gather(uint16_t end) {
    const uint8_t* const ring = tx_wqes_.data();
    const uint32_t mask = tx_.mask;
    constexpr uint32_t kSegments = mlx5::kWqebb / mlx5::kSegment; // of a WQEBB
    for (uint16_t at = sq_; at != end; ++at)
        __builtin_prefetch(ring + (at & mask) * mlx5::kWqebb);
    uint32_t count = 0;
    for (wqe_count_ = 0; sq_ != end && count + mlx5::kMaxWqeSegments <= kBatch;) {
        const uint32_t first = (sq_ & mask) * kSegments;
        const auto* const control =
            reinterpret_cast<const mlx5::WqeCtrlSeg*>(ring + first * mlx5::kSegment);
        const uint32_t segments = control->qpn_ds & mlx5::kMaxWqeSegments;
        for (uint32_t i = 2; i < segments; ++i) {
            const uint32_t at = (first + i) & ((mask + 1) * kSegments - 1);
            const auto* const data =
                reinterpret_cast<const mlx5::WqeDataSeg*>(ring + at * mlx5::kSegment);
            packets_[count] = {reinterpret_cast<const uint8_t*>(uint64_t{data->addr}),
                               data->byte_count};
            if (count < mover_.fetch.of(packets_[count].bytes))
                fetch(packets_[count].data, packets_[count].bytes);
            ++count;
        }
        wqes_[wqe_count_++] = sq_;
        sq_ = static_cast<uint16_t>(sq_ + (segments + kSegments - 1) / kSegments);
    }
    return count;
}

/// False: the thread is to end.
bool RateFloor::await_room(uint32_t count) {
    const auto room = [this] { return static_cast<uint16_t>(rq_posted_ - rq_); };
    // The requests whose buffers are prefetched should be posted, too.
    if (room() < count + mover_.claim.few) rq_posted_ = posted(records_[0].rx.receive);
    while (room() < count) {
        if (stop_.load(std::memory_order_relaxed)) return false;
        rte_pause();
        rq_posted_ = posted(records_[0].rx.receive);
    }
    return true;
}

void RateFloor::place(uint32_t count) {
    const uint32_t mask = rx_.mask;
    const auto buffer = [&](uint32_t ahead) {
        return reinterpret_cast<uint8_t*>(uint64_t{rx_wqes_[(rq_ + ahead) & mask].addr});
    };
    for (uint32_t i = 0; i < count; ++i) {
        const Packet& packet = packets_[i];
        const uint32_t ahead = mover_.fetch.of(packet.bytes);
        if (ahead != 0 && i + ahead < count)
            fetch(packets_[i + ahead].data, packets_[i + ahead].bytes);
        const uint32_t claimed = mover_.claim.of(packet.bytes);
        if (claimed != 0 && static_cast<uint16_t>(rq_posted_ - rq_) > claimed) {
            for_each_line(buffer(claimed), packet.bytes, claim_line);
            claim_line(&rx_cqes_[(rx_cq_ + claimed) & mask]);
        }
        memcpy(buffer(0), packet.data, packet.bytes);
        write_completion(packet.bytes);
        ++rq_;
    }
}

/// In whole lines; the owner bit last.
void RateFloor::write_completion(uint32_t bytes) {
    auto* const to = reinterpret_cast<__m128i*>(&rx_cqes_[rx_cq_ & rx_.mask]);
    const uint64_t op_own = uint64_t{static_cast<uint8_t>(mlx5::CqeOpcode::resp_send)} << 4 |
                            (rx_cq_ >> rx_.cq.log_size & mlx5::kOwnerMask);
    _mm_store_si128(to, _mm_setzero_si128());
    _mm_store_si128(to + 1, _mm_setzero_si128());
    _mm_store_si128(to + 2, _mm_set_epi32(static_cast<int>(__builtin_bswap32(bytes)), 0, 0, 0));
    std::atomic_thread_fence(std::memory_order_release);
    _mm_store_si128(to + 3, _mm_set_epi64x(static_cast<int64_t>(op_own << 56), 0));
    ++rx_cq_;
}

void RateFloor::complete_sends() {
    for (uint32_t i = 0; i < wqe_count_; ++i, ++tx_cq_) {
        mlx5::Cqe& cqe = tx_cqes_[tx_cq_ & tx_.cq.mask];
        cqe.wqe_counter = wqes_[i];
        __atomic_store_n(&cqe.op_own,
                         static_cast<uint8_t>(tx_cq_ >> tx_.cq.log_size & mlx5::kOwnerMask),
                         __ATOMIC_RELEASE);
    }
}

} // namespace perf
