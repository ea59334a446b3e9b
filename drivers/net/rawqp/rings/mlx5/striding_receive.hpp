// SPDX-License-Identifier: BSD-3-Clause
// The receive burst of striding queues, and its steps for one packet at a time.
//
// A reader has what instruction sets do differently:
//   take_strides<O>(ring, packets, wanted, bytes)  plain CQEs of packets in one stride each;
//   returns how many, 0 when the next completion is something else
// Each instruction set compiles this header for itself: nothing here may be shared by the linker.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_receive.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_ring.hpp"

namespace rawqp::mlx5rings {
namespace {

enum class PeekState : uint8_t { empty, completion, error };

/// The next completion, which stays. An error is also what no device would write.
template <RxOptions O> inline PeekState peek(StridingRing& ring, PeekedCqe& peeked) {
    if (ring.block_left == 0) {
        switch (ring.cq.state(ring.cq.consumer)) {
        case CqeState::empty: return PeekState::empty;
        case CqeState::error: return PeekState::error;
        case CqeState::complete:
            owner_before_content();
            peeked.cqe = &ring.cq.at(ring.cq.consumer);
            peeked.byte_count = peeked.cqe->byte_count;
            break;
        case CqeState::compressed:
            if (!open_block<O>(ring)) return PeekState::error;
            break;
        }
    }
    if (ring.block_left > 0) {
        const uint32_t next = ring.block.count - ring.block_left;
        const mlx5::MiniCqe& mini =
            ring.cq.mini_array(ring.cq.consumer, next)[next % mlx5::kMiniCqes];
        peeked = {nullptr, mini.byte_count, mini.result};
    }
    const uint32_t strides = peeked.strides();
    const bool fits = strides != 0 && ring.used + strides <= ring.strides_per_wqe() &&
                      peeked.bytes() <= strides << ring.log_stride_bytes &&
                      (peeked.filler() || peeked.bytes() >= ring.extras.crc_bytes);
    return fits ? PeekState::completion : PeekState::error;
}

inline void step_over(StridingRing& ring, const PeekedCqe& peeked) {
    if (peeked.cqe != nullptr)
        ++ring.cq.consumer;
    else if (--ring.block_left == 0)
        ring.block.leave(ring.cq);
    ring.used += peeked.strides();
    if (ring.used == ring.strides_per_wqe()) striding_next_wqe(ring);
}

/// Whether `count` mbufs are at hand.
inline bool have_mbufs(StridingRing& ring, uint32_t count) {
    if (ring.stashed >= count) [[likely]]
        return true;
    // All that fit, or else as few as do.
    for (uint32_t wanted = StridingRing::kStash - ring.stashed; wanted > 0; wanted /= 2) {
        if (!take_mbufs(ring.pool, &ring.stash[ring.stashed], wanted)) continue;
        ring.stashed += wanted;
        break;
    }
    return ring.stashed >= count;
}

/// As describe(), of a packet in a block.
template <RxOptions O>
inline void describe_from_block(StridingRing& ring, const PeekedCqe& peeked, rte_mbuf& mbuf,
                                uint32_t bytes) {
    const rte_mbuf& model = ring.block.model();
    rearm_mbuf(mbuf, ring.rearm);
    mbuf.ol_flags = model.ol_flags;
    mbuf.packet_type = model.packet_type;
    mbuf.pkt_len = bytes;
    mbuf.data_len = static_cast<uint16_t>(bytes);
    mbuf.vlan_tci = model.vlan_tci;
    mbuf.hash.rss = ring.block.hashes ? peeked.hash : 0;
    if constexpr (O.mark) mbuf.hash.fdir.hi = model.hash.fdir.hi;
}

/// The packets of a buffer that are attached to mbufs.
struct Attacher {
    Attacher(StridingRing& ring, StridingBuffer& buffer)
        : buffer(buffer), data(ring.data_of(buffer)), log_stride_bytes(ring.log_stride_bytes),
          to_iova(rte_mempool_virt2iova(&buffer) - reinterpret_cast<uintptr_t>(&buffer)) {}

    /// Has the mbuf point at the packet that starts at `stride`, which stays where it is. Its
    /// reference to the buffer is the caller's to add; its flag is set with the others.
    void attach(uint32_t stride, uint32_t bytes_of_strides, rte_mbuf& mbuf) {
        uint8_t* const start = data + (stride << log_stride_bytes) - RTE_PKTMBUF_HEADROOM;
        rte_mbuf_ext_shared_info& info = buffer.info(stride);
        rte_mbuf_ext_refcnt_set(&info, 1);
        mbuf.buf_addr = start;
        rte_mbuf_iova_set(&mbuf, reinterpret_cast<uintptr_t>(start) + to_iova);
        mbuf.buf_len = static_cast<uint16_t>(RTE_MIN(bytes_of_strides, uint32_t{UINT16_MAX}));
        mbuf.shinfo = &info;
    }

    StridingBuffer& buffer;
    uint8_t* data;
    uint8_t log_stride_bytes;
    rte_iova_t to_iova; ///< from an address in the buffer
};

/// Copies the packet into `mbuf`, described as if it held all of it, and as many more as it takes.
template <RxOptions O>
inline void copy(StridingRing& ring, const uint8_t* from, uint32_t bytes, rte_mbuf& mbuf) {
    const uint32_t first = O.scattered ? RTE_MIN(bytes, uint32_t{ring.first_room}) : bytes;
    rte_memcpy(rte_pktmbuf_mtod(&mbuf, void*), from, first);
    mbuf.data_len = static_cast<uint16_t>(first);
    if constexpr (O.scattered) {
        rte_mbuf* last = &mbuf;
        for (uint32_t at = first; at < bytes;) {
            rte_mbuf* const next = ring.stash[--ring.stashed];
            const uint32_t part = RTE_MIN(bytes - at, uint32_t{ring.next_room});
            rearm_mbuf(*next, ring.rearm);
            next->data_off = 0;
            next->data_len = static_cast<uint16_t>(part);
            next->ol_flags = ring.base_flags;
            rte_memcpy(next->buf_addr, from + at, part);
            last->next = next;
            last = next;
            ++mbuf.nb_segs;
            at += part;
        }
    }
}

/// The packet as an mbuf; null when mbufs are lacking.
template <RxOptions O> inline rte_mbuf* take_packet(StridingRing& ring, const PeekedCqe& peeked) {
    StridingBuffer& buffer = *ring.buffers[ring.consumer & ring.mask];
    const uint32_t bytes = packet_bytes<O>(ring, peeked.bytes());
    const uint32_t room = peeked.strides() << ring.log_stride_bytes;
    const bool attached = bytes > ring.copy_bytes && ring.spare != nullptr &&
                          peeked.bytes() + RTE_PKTMBUF_HEADROOM <= room;
    uint32_t mbufs = 1;
    if (O.scattered && !attached && bytes > ring.first_room)
        mbufs += (bytes - ring.first_room + ring.next_room - 1) / ring.next_room;
    if (!have_mbufs(ring, mbufs)) return nullptr;

    rte_mbuf* const mbuf = ring.stash[--ring.stashed];
    if (attached) {
        Attacher(ring, buffer).attach(ring.used, room, *mbuf);
        buffer.add_references(1);
    }
    if (peeked.cqe != nullptr)
        describe<O>(ring, *peeked.cqe, *mbuf, bytes);
    else
        describe_from_block<O>(ring, peeked, *mbuf, bytes);
    const uint8_t* const data = ring.data_of(buffer) + (ring.used << ring.log_stride_bytes);
    if (attached)
        mbuf->ol_flags |= RTE_MBUF_F_EXTERNAL;
    else
        copy<O>(ring, data, bytes, *mbuf);
    if constexpr (O.offloads)
        if (mbuf->ol_flags & kUnproven) [[unlikely]]
            settle_checksums(&mbuf, 1);
    return mbuf;
}

/// Longer than what the queue was made for: attached packets may be, copies may not.
inline bool too_long(const StridingRing& ring, const PeekedCqe& peeked) {
    return peeked.bytes() > ring.first_room + (ring.segments - 1u) * ring.next_room +
                                uint32_t{ring.extras.crc_bytes};
}

template <class Reader, RxOptions O>
uint16_t receive_strides(StridingRing& ring, rte_mbuf** packets, uint16_t wanted) {
    const uint16_t wqe = ring.consumer;
    if constexpr (O.stamps == Stamps::real_time) ring.clock.refresh();
    uint64_t bytes = 0;
    uint16_t received = 0;
    bool moved = false;
    PeekedCqe peeked{};
    PeekState state = PeekState::empty;
    while (received < wanted) {
        if (const uint32_t taken = Reader::template take_strides<O>(
                ring, packets + received, uint32_t{wanted} - received, bytes)) {
            received = static_cast<uint16_t>(received + taken);
            moved = true;
            continue;
        }
        state = peek<O>(ring, peeked);
        if (state != PeekState::completion) break;
        if (!peeked.filler() && too_long(ring, peeked)) [[unlikely]] {
            ++ring.counters.errors;
        } else if (!peeked.filler()) {
            rte_mbuf* const mbuf = take_packet<O>(ring, peeked);
            if (mbuf == nullptr) {
                ring.counters.nombuf += !std::exchange(ring.nombuf_counted, true);
                break;
            }
            ring.nombuf_counted = false;
            packets[received++] = mbuf;
            bytes += mbuf->pkt_len;
        }
        step_over(ring, peeked);
        moved = true;
    }
    if (moved) {
        ring.cq.publish_consumer();
        ring.counters.packets += received;
        ring.counters.bytes += bytes;
    }
    if (ring.consumer != wqe) ring.ring_doorbell();
    if (state == PeekState::error) [[unlikely]]
        striding_recover(ring);
    return received;
}

template <class Reader, RxOptions O>
uint16_t striding_receive(void* queue, rte_mbuf** packets, uint16_t wanted) {
    constexpr RxOptions kAll = telling_all(O);
    auto& ring = *static_cast<StridingRing*>(queue);
    if (__atomic_load_n(&ring.tell_all, __ATOMIC_RELAXED)) [[unlikely]]
        return receive_strides<Reader, kAll>(ring, packets, wanted);
    return receive_strides<Reader, O>(ring, packets, wanted);
}

template <class Reader, RxOptions O> constexpr Burst<eth_rx_burst_t> make_striding() {
    return {striding_receive<Reader, O>, kReaderName<Reader, O>.data()};
}

/// A reader's bursts by RxVariant.
template <class Reader, bool Scattered>
constexpr Burst<eth_rx_burst_t> kStridingVariants[] = {
    make_striding<Reader, rx_options(RxVariant::plain, Scattered)>(),
    make_striding<Reader, rx_options(RxVariant::offloads, Scattered)>(),
    make_striding<Reader, rx_options(RxVariant::crc, Scattered)>(),
    make_striding<Reader, rx_options(RxVariant::ticks, Scattered)>(),
    make_striding<Reader, rx_options(RxVariant::real_time, Scattered)>(),
};

} // namespace
} // namespace rawqp::mlx5rings
