// SPDX-License-Identifier: BSD-3-Clause
// Packets of striding queues, one at a time: reads the next completion and copies or attaches its
// packet. Each instruction set compiles this header for itself.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_describe.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_ring.hpp"

namespace rawqp::mlx5rings {
namespace {

enum class PeekState : uint8_t { empty, completion, error };

/// Checks that a device may have written what was peeked at, and adds where its packet lies.
inline PeekState validate(const StridingRing& ring, PeekedCqe& peeked) {
    const uint32_t strides = peeked.strides();
    peeked.used = ring.used();
    const bool fits = strides != 0 && peeked.used + strides <= ring.strides_per_wqe() &&
                      peeked.bytes() <= strides << ring.log_stride_bytes &&
                      (peeked.filler() || peeked.bytes() >= ring.extras.crc_bytes);
    return fits ? PeekState::completion : PeekState::error;
}

/// Reads the next completion without taking it. What no device would write also counts as an error.
template <RxOptions O> inline PeekState peek(StridingRing& ring, PeekedCqe& peeked) {
    if (ring.cq.block_left == 0) {
        const Cqe& cqe = ring.cq.at(ring.cq.consumer);
        switch (ring.cq.classify(load_op_own(cqe), ring.cq.consumer)) {
        case CqeState::empty: return PeekState::empty;
        case CqeState::error: return PeekState::error;
        case CqeState::complete:
            owner_before_content();
            peeked.cqe = &cqe;
            peeked.byte_count = cqe.byte_count;
            return validate(ring, peeked);
        case CqeState::compressed:
            if (!open_block<O>(ring)) return PeekState::error;
            break;
        }
    }
    const uint32_t next = ring.block.count - ring.cq.block_left;
    const mlx5::MiniCqe& mini = ring.cq.mini_array(ring.cq.consumer, next)[next % mlx5::kMiniCqes];
    peeked = {nullptr, mini.byte_count, mini.result, 0};
    return validate(ring, peeked);
}

inline void step_over(StridingRing& ring, const PeekedCqe& peeked) {
    if (peeked.cqe != nullptr) {
        ring.cq.take(1, peeked.strides());
    } else {
        ring.cq.take_from_block(1, peeked.strides());
        if (ring.cq.is_leaving()) ring.block.leave(ring.cq);
    }
    if (peeked.used + peeked.strides() == ring.strides_per_wqe()) striding_post(ring);
}

/// Takes mbufs for the next packets: all that fit into the stash, or else as few as do. Inlined
/// into the loops over packets it would cost registers.
[[gnu::noinline]] inline void fill_stash(StridingRing& ring) {
    for (uint32_t wanted = StridingRing::kStash - ring.stashed; wanted > 0; wanted /= 2) {
        if (!take_mbufs(ring.pool, &ring.stash[ring.stashed], wanted)) continue;
        ring.stashed += wanted;
        break;
    }
}
/// Whether `count` mbufs are at hand.
inline bool have_mbufs(StridingRing& ring, uint32_t count) {
    if (ring.stashed < count) [[unlikely]]
        fill_stash(ring);
    return ring.stashed >= count;
}

/// Attaches packets of a buffer to mbufs.
struct Attacher {
    explicit Attacher(StridingBuffer& buffer)
        : buffer(buffer),
          to_iova(rte_mempool_virt2iova(&buffer) - reinterpret_cast<uintptr_t>(&buffer)) {}

    /// Points the mbuf at the packet, which starts at `stride` and stays where it is. The caller
    /// adds its reference to the buffer; its flag is set with the others.
    void attach(uint8_t* packet, uint32_t stride, uint32_t bytes_of_strides, rte_mbuf& mbuf) {
        uint8_t* const start = packet - RTE_PKTMBUF_HEADROOM;
        rte_mbuf_ext_shared_info& info = buffer.info(stride);
        rte_mbuf_ext_refcnt_set(&info, 1);
        mbuf.buf_addr = start;
        rte_mbuf_iova_set(&mbuf, reinterpret_cast<uintptr_t>(start) + to_iova);
        mbuf.buf_len = static_cast<uint16_t>(RTE_MIN(bytes_of_strides, uint32_t{UINT16_MAX}));
        mbuf.shinfo = &info;
    }

    StridingBuffer& buffer;
    rte_iova_t to_iova; ///< from an address in the buffer
};

/// Copies a packet's first bytes into `mbuf`. It is not inlined: rte_memcpy() is large, and there
/// is a burst for each combination of options.
[[gnu::noinline]] inline void copy(const uint8_t* from, uint32_t bytes, rte_mbuf& mbuf) {
    rte_memcpy(rte_pktmbuf_mtod(&mbuf, void*), from, bytes);
    mbuf.data_len = static_cast<uint16_t>(bytes);
}

/// Copies the remaining bytes into as many more mbufs as they take.
[[gnu::noinline]] inline void copy_rest(StridingRing& ring, const uint8_t* from, uint32_t bytes,
                                        rte_mbuf& mbuf) {
    rte_mbuf* last = &mbuf;
    for (uint32_t at = 0; at < bytes;) {
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

/// The packet as an mbuf; null when mbufs are lacking.
template <RxOptions O> inline rte_mbuf* take_packet(StridingRing& ring, const PeekedCqe& peeked) {
    StridingBuffer& buffer = *ring.buffers[ring.slot()];
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
        uint8_t* const packet = ring.stride_of(buffer, peeked.used);
        Attacher(buffer).attach(packet, peeked.used, room, *mbuf);
        buffer.add_references(1);
    }
    if (peeked.cqe != nullptr)
        describe<O>(ring, *peeked.cqe, *mbuf, bytes);
    else
        describe_from_block<O>(ring, peeked.hash, *mbuf, bytes);
    if (attached) {
        mbuf->ol_flags |= RTE_MBUF_F_EXTERNAL;
    } else {
        const uint8_t* const data = ring.stride_of(buffer, peeked.used);
        const uint32_t first = O.scattered ? RTE_MIN(bytes, uint32_t{ring.first_room}) : bytes;
        copy(data, first, *mbuf);
        if (O.scattered && bytes > first) copy_rest(ring, data + first, bytes - first, *mbuf);
    }
    if constexpr (O.offloads)
        if (mbuf->ol_flags & kUnproven) [[unlikely]]
            settle_checksums(&mbuf, 1);
    return mbuf;
}

/// Longer than the queue was made for: attached packets may be, copies may not.
inline bool too_long(const StridingRing& ring, const PeekedCqe& peeked) {
    return peeked.bytes() > ring.most_bytes;
}

} // namespace
} // namespace rawqp::mlx5rings
