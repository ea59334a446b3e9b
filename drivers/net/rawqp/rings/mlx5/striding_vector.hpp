// SPDX-License-Identifier: BSD-3-Clause
// Completions of striding queues in steps of plain CQEs or of a block's array: they are described
// like those of cyclic queues, then each packet is copied or attached.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_vector.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_packet.hpp"

#include <type_traits>

namespace rawqp::mlx5rings {
namespace {

/// What packets of one stride each have in common.
struct OneStride {
    explicit OneStride(const StridingRing& ring) : least_(kOne + ring.extras.crc_bytes) {
        const uint32_t stride_bytes = 1u << ring.log_stride_bytes;
        const uint32_t lent = RTE_PKTMBUF_HEADROOM + ring.extras.crc_bytes;
        const uint32_t most = stride_bytes > lent ? stride_bytes - lent : 0;
        if (most > ring.copy_bytes) {
            least_attached = ring.copy_bytes + 1u;
            attached_span = most - least_attached;
        }
        const uint32_t room = std::min<uint32_t>(stride_bytes, ring.first_room);
        span_ = std::min(kOne + stride_bytes, least_ + room / 64 * 64) - least_;
    }

    /// Fillers, longer packets and what no device writes are for the scalar steps.
    [[nodiscard]] bool fits(uint32_t byte_count) const { return byte_count - least_ <= span_; }
    /// Bytes of the packet.
    [[nodiscard]] uint32_t length(uint32_t byte_count) const { return byte_count - least_; }

    static constexpr uint32_t kNone = 1u << 31; ///< far from any length
    uint32_t least_attached = kNone; ///< the shortest packet that is attached, see StridingRing …
    uint32_t attached_span = 0;      ///< … the longest one has this many bytes more

  private:
    static constexpr uint32_t kOne = 1u << 16;
    uint32_t least_, span_; // of byte_count as the CQE has it
};

/// Copies a packet, and what follows it up to a multiple of 64 bytes: finding out how many bytes to
/// copy takes longer than copying them. take_strides() makes sure of room for 64 bytes, OneStride
/// of room for more.
inline void copy_by_64(uint8_t* to, const uint8_t* from, uint32_t bytes) {
    size_t at = 0;
    do {
        copy_64(to + at, from + at);
        at += 64;
    } while (at < bytes);
}

/// Prefetches the packets of the step after the one at `data`, which will probably be copied as
/// well. Those to be attached are not left out: in an irregular order, the CPU's own prefetcher
/// finds no pattern.
inline void fetch_next_step(const uint8_t* data, uint32_t stride_bytes) {
    data += kStep * stride_bytes;
    for (uint32_t i = 0; i < kStep; ++i, data += stride_bytes)
        __builtin_prefetch(data); // beyond the buffer's end it is of no use, but does no harm
}

/// Copies or attaches the packets after `used` strides of the present WQE, until one does not have
/// exactly one stride. `Entry`: a CQE or a mini CQE. Returns how many.
template <RxOptions O, class Entry>
inline uint32_t place(StridingRing& ring, uint32_t used, const OneStride& shared,
                      const Entry* entries, rte_mbuf** mbufs, uint32_t count, uint64_t& bytes) {
    constexpr bool kStamped = O.stamps != Stamps::none && std::is_same_v<Entry, Cqe>;
    const OneStride one = shared; // no store into a packet can change this copy
    StridingBuffer& buffer = *ring.buffers[ring.slot()];
    Attacher attacher(buffer);
    const uint32_t stride_bytes = 1u << ring.log_stride_bytes;
    uint8_t* data = ring.stride_of(buffer, used);
    const uint32_t least_attached = ring.spare != nullptr ? one.least_attached : OneStride::kNone;
    if (ring.copied) fetch_next_step(data, stride_bytes);
    uint32_t references = 0;
    uint64_t sum = 0;
    const Entry* entry = entries;
    for (const Entry* const end = entries + count; entry != end; ++entry, ++mbufs, ++used) {
        const uint32_t byte_count = entry->byte_count;
        if (!one.fits(byte_count)) break;
        const uint32_t length = one.length(byte_count);
        rte_mbuf& mbuf = **mbufs;
        if constexpr (kStamped) stamp<O>(ring, *entry, mbuf);
        if (length - least_attached <= one.attached_span) {
            attacher.attach(data, used, stride_bytes, mbuf);
            mbuf.ol_flags |= RTE_MBUF_F_EXTERNAL;
            ++references;
        } else {
            copy_by_64(rte_pktmbuf_mtod(&mbuf, uint8_t*), data, length);
        }
        sum += length;
        data += stride_bytes;
    }
    bytes += sum;
    if (references > 0) buffer.add_references(references);
    const auto placed = static_cast<uint32_t>(entry - entries);
    ring.copied = references < placed;
    return placed;
}

/// Of the stash's last `Of` mbufs, which have been described, the `count` from `first` on are
/// packets and go to the application; the others stay.
template <uint32_t Of>
inline void hand_over(StridingRing& ring, uint32_t first, uint32_t count, rte_mbuf** packets) {
    rte_mbuf** const mbufs = &ring.stash[ring.stashed - Of];
    if (count == Of) [[likely]] {
        std::copy_n(mbufs, Of, packets);
        ring.stashed -= Of;
        return;
    }
    std::copy_n(mbufs + first, count, packets);
    ring.stashed -= Of;
    rte_compiler_barrier(); // meanwhile some are there twice, in case the process is killed
    std::copy(mbufs + first + count, mbufs + Of, mbufs + first);
    rte_compiler_barrier();
    ring.stashed += Of - count;
}

/// Takes kStep packets or fewer; fewer when what comes next is not there or not for this reader.
template <RxOptions O>
inline uint32_t take_step(StridingRing& ring, const Constants& constants, const OneStride& one,
                          rte_mbuf** packets, uint32_t wanted, uint64_t& bytes) {
    if (ring.cq.entries_to_end() < kStep) return 0;
    const uint8_t expected = ring.cq.expected(CqeOpcode::resp_send, ring.cq.consumer);
    const Cqe* const cqes = &ring.cq.at(ring.cq.consumer);
    const uint32_t used = ring.used(), strides = ring.strides_per_wqe();
    uint32_t count = std::min({kStep, wanted, strides - used});
    if (count < kStep || !step_is_there(cqes, expected)) count = count_plain(cqes, count, expected);
    if (count == 0) return 0;
    owner_before_content();
    const DescribedStep<O> step(constants, cqes);
    count = std::min(count, plain_ones(step, expected));
    rte_mbuf** const mbufs = &ring.stash[ring.stashed - kStep];
    step.store(mbufs); // those that are not taken are described again
    const bool unproven = O.offloads && any(step.flags & all(kUnproven));
    count = place<O>(ring, used, one, cqes, mbufs, count, bytes);
    if (packet_infos(cqes) & mlx5::kTunnelled) [[unlikely]]
        describe_tunnels(ring, cqes, mbufs, count);
    if (unproven) [[unlikely]]
        settle_checksums(mbufs, count);
    if constexpr (O.mark) {
        store_marks(step.tags, mbufs, count);
        if (ring.metadata_flag != 0) [[unlikely]]
            tell_all_metadata(ring, cqes, mbufs, count);
    }
    hand_over<kStep>(ring, 0, count, packets);
    ring.cq.take(count);
    if (used + count == strides) striding_post(ring);
    return count;
}

/// The same, from an array of the present block.
template <RxOptions O>
inline uint32_t take_array(StridingRing& ring, const MiniStep<O>& step, const OneStride& one,
                           rte_mbuf** packets, uint32_t wanted, uint64_t& bytes) {
    const uint32_t used = ring.used(), strides = ring.strides_per_wqe();
    const uint32_t left = ring.cq.packets_left(), next = ring.block.count - left;
    const uint32_t first = next % mlx5::kMiniCqes;
    const mlx5::MiniCqe* const minis = ring.cq.mini_array(ring.cq.consumer, next);
    rte_mbuf** const mbufs = &ring.stash[ring.stashed - mlx5::kMiniCqes];
    for (uint32_t i = 0; i < mlx5::kMiniCqes; i += kLanes) // those that are not taken as well
        step.describe(&minis[i], &mbufs[i]);
    uint32_t count = std::min({wanted, left, mlx5::kMiniCqes - first, strides - used});
    count = place<O>(ring, used, one, minis + first, mbufs + first, count, bytes);
    if (count == 0) return 0;
    tell_metadata_of_block<O>(ring, mbufs + first, count);
    if constexpr (O.offloads)
        if (ring.block.model().ol_flags & kUnproven) [[unlikely]]
            settle_checksums(mbufs + first, count);
    hand_over<mlx5::kMiniCqes>(ring, first, count, packets);
    ring.cq.take_from_block(count, count);
    if (ring.cq.is_leaving()) ring.block.leave(ring.cq);
    if (used + count == strides) striding_post(ring);
    return count;
}

/// Takes packets of one stride each from the present block, until one is not. Returns how many.
template <RxOptions O>
[[gnu::noinline, gnu::flatten]] uint32_t take_block(StridingRing& ring, rte_mbuf** packets,
                                                    uint32_t wanted, uint64_t& bytes) {
    const OneStride one(ring);
    const MiniStep<O> step(ring, kStridingMiniOrders);
    uint32_t taken = 0;
    while (ring.cq.block_left > 0 && taken < wanted && have_mbufs(ring, mlx5::kMiniCqes)) {
        const uint32_t more =
            take_array<O>(ring, step, one, packets + taken, wanted - taken, bytes);
        if (more == 0) break;
        taken += more;
    }
    if (taken > 0) ring.nombuf_counted = false;
    return taken;
}

/// The same, from plain CQEs.
template <RxOptions O>
[[gnu::noinline, gnu::flatten]] uint32_t take_plain(StridingRing& ring, rte_mbuf** packets,
                                                    uint32_t wanted, uint64_t& bytes) {
    if (!have_mbufs(ring, kStep)) return 0;
    const OneStride one(ring);
    const Constants constants(ring, kStridingFieldsOrder);
    uint32_t taken = 0;
    for (uint32_t step = kStep; step == kStep && have_mbufs(ring, kStep); taken += step)
        step = take_step<O>(ring, constants, one, packets + taken, wanted - taken, bytes);
    if (taken > 0) ring.nombuf_counted = false;
    return taken;
}

/// The same, from either. Each has its own function, with all that it calls inlined, so that what
/// it needs of the ring stays in registers.
template <RxOptions O>
inline uint32_t take_strides(StridingRing& ring, rte_mbuf** packets, uint32_t wanted,
                             uint64_t& bytes) {
    if (ring.first_room < 64) return 0;
    const uint32_t next = ring.cq.consumer;
    const uint8_t expected = ring.cq.expected(CqeOpcode::resp_send, next);
    if (ring.cq.block_left == 0) {
        if (is_plain(ring.cq.at(next), expected))
            return take_plain<O>(ring, packets, wanted, bytes);
        if (!ring.may_compress || ring.cq.state(next) != CqeState::compressed ||
            !open_block<O>(ring))
            return 0;
    }
    return take_block<O>(ring, packets, wanted, bytes);
}

} // namespace
} // namespace rawqp::mlx5rings
