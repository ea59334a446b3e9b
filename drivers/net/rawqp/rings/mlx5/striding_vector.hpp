// SPDX-License-Identifier: BSD-3-Clause
// Plain CQEs of striding queues in steps: they are described as those of cyclic ones, then each
// packet is copied or attached.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_vector.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_packet.hpp"

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
    uint32_t attached_span = 0;      ///< … the longest one has so many bytes more

  private:
    static constexpr uint32_t kOne = 1u << 16;
    uint32_t least_, span_; // of byte_count as the CQE has it
};

/// Copies a packet, and what comes after it up to a multiple of 64 bytes: it takes longer to find
/// out how many bytes there are to copy than to copy them. There is room for 64 bytes, of which
/// take_strides() makes sure, and for more by OneStride.
inline void copy_by_64(uint8_t* to, const uint8_t* from, uint32_t bytes) {
    size_t at = 0;
    do {
        copy_64(to + at, from + at);
        at += 64;
    } while (at < bytes);
}

/// Copies or attaches the packets after `used` strides of the present WQE, until one is not of one
/// stride. Returns how many.
template <RxOptions O>
inline uint32_t place(StridingRing& ring, uint32_t used, const OneStride& shared, const Cqe* cqes,
                      rte_mbuf** mbufs, uint32_t count, uint64_t& bytes) {
    const OneStride one = shared; // no store into a packet can change this one
    StridingBuffer& buffer = *ring.buffers[ring.slot()];
    Attacher attacher(buffer);
    const uint32_t stride_bytes = 1u << ring.log_stride_bytes;
    uint8_t* data = ring.stride_of(buffer, used);
    const uint32_t least_attached = ring.spare != nullptr ? one.least_attached : OneStride::kNone;
    uint32_t references = 0;
    uint64_t sum = 0;
    const Cqe* cqe = cqes;
    for (const Cqe* const end = cqes + count; cqe != end; ++cqe, ++mbufs, ++used) {
        const uint32_t byte_count = cqe->byte_count;
        if (!one.fits(byte_count)) break;
        const uint32_t length = one.length(byte_count);
        rte_mbuf& mbuf = **mbufs;
        if constexpr (O.stamps != Stamps::none) stamp<O>(ring, *cqe, mbuf);
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
    return static_cast<uint32_t>(cqe - cqes);
}

/// kStep packets or fewer; fewer when what comes next is not there or not for this reader.
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
    if (count == kStep) [[likely]]
        copy_pointers(packets, mbufs);
    else
        std::copy_n(mbufs, count, packets);
    ring.stashed -= kStep;
    if (count < kStep) { // meanwhile some are there twice, for a process that would be killed
        rte_compiler_barrier();
        std::copy(mbufs + count, mbufs + kStep, mbufs);
        rte_compiler_barrier();
        ring.stashed += kStep - count;
    }
    ring.cq.take(count);
    if (used + count == strides) striding_post(ring);
    return count;
}

/// Packets in one stride each, from plain CQEs, until one is something else. Returns how many.
template <RxOptions O>
inline uint32_t take_strides(StridingRing& ring, rte_mbuf** packets, uint32_t wanted,
                             uint64_t& bytes) {
    const uint8_t expected = ring.cq.expected(CqeOpcode::resp_send, ring.cq.consumer);
    if (ring.cq.block_left > 0 || !is_plain(ring.cq.at(ring.cq.consumer), expected) ||
        ring.first_room < 64 || !have_mbufs(ring, kStep))
        return 0;
    const OneStride one(ring);
    const Constants constants(ring, kStridingFieldsOrder);
    uint32_t taken = 0;
    for (uint32_t step = kStep; step == kStep && have_mbufs(ring, kStep); taken += step)
        step = take_step<O>(ring, constants, one, packets + taken, wanted - taken, bytes);
    if (taken > 0) ring.nombuf_counted = false;
    return taken;
}

} // namespace
} // namespace rawqp::mlx5rings
