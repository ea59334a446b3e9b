// SPDX-License-Identifier: BSD-3-Clause
// Plain CQEs in steps: kStep of them are described at once, in vectors of 32-bit words, each vector
// holding one field of all of them.
//
// What differs between instruction sets is in a header for each. A Vector is kStep words, a lane 16
// bytes of it, and Sums the same as 64-bit words; bitwise operators, shifts and comparisons (all
// bits of a word or none) are the compilers' own for such types.
//   kStep, kSeenInOrder
//   in_all_lanes(bytes)      16 of them
//   store_words(to, vector)
//   shuffle(bytes, order)    within lanes; an index of 0x80 or more gives zero
//   minus16(a, b)            as 16-bit words
//   store_lane<Lane>(to, vector)
//   leading_ones(mask)       of a comparison: its first words that are true
//   copy_pointers(to, from)  kStep of them
//   copy_64(to, from)        64 bytes
//   load_minis(minis)        as many as there are lanes, all in each lane
//   a step: kStep CQEs on their way into as many mbufs
//     (constants, cqes)      gathers info (bytes 28 to 31: hds_ip_ext, l4_l3_type, vlan_info),
//                            hash_type (in the low byte), tag (big-endian), op_own (high byte)
//     put_flags(constants, flags)            low halves of ol_flags, and what comes before them
//     put_fields<Crc>(constants, packet_types)  and then the other fields
//     store(mbufs)
//     lengths()              the sum of pkt_len, in the even words of Sums
#pragma once

#include "common/lines.hpp"
#include "drivers/net/rawqp/rings/ahead.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_describe.hpp"

#include <algorithm>
#include <bit>
#include <string_view>

#if defined(RAWQP_AVX512)
#include "drivers/net/rawqp/rings/mlx5/rx_avx512.hpp"
#elif defined(RAWQP_AVX2)
#include "drivers/net/rawqp/rings/mlx5/rx_avx2.hpp"
#elif defined(RAWQP_NEON)
#include "drivers/net/rawqp/rings/mlx5/rx_neon.hpp"
#endif

namespace rawqp::mlx5rings {
namespace {

#if defined(RAWQP_AVX512)
constexpr Isa kIsa = Isa::avx512;
constexpr std::string_view kReaderName = "mlx5 AVX-512";
constexpr std::string_view kStridingReaderName = "mlx5 striding AVX-512";
using CqeStep = Avx512Step;
#elif defined(RAWQP_AVX2)
constexpr Isa kIsa = Isa::avx2;
constexpr std::string_view kReaderName = "mlx5 AVX2";
constexpr std::string_view kStridingReaderName = "mlx5 striding AVX2";
using CqeStep = Avx2Step;
#elif defined(RAWQP_NEON)
constexpr Isa kIsa = Isa::neon;
constexpr std::string_view kReaderName = "mlx5 NEON";
constexpr std::string_view kStridingReaderName = "mlx5 striding NEON";
using CqeStep = NeonStep;
#endif

constexpr uint32_t kLanes = sizeof(Vector) / sizeof(Lane);

/// The same 32 or 64 bits in all of them.
inline Vector all(uint32_t value) { return Vector{} + value; }
inline Vector all_pairs(uint64_t value) { return reinterpret_cast<Vector>(Sums{} + value); }

/// The result of a comparison.
template <class Mask> inline Vector mask(Mask compared) {
    static_assert(sizeof compared == sizeof(Vector));
    return reinterpret_cast<Vector>(compared);
}
/// Whether any bit is set.
inline bool any(Vector vector) { return leading_ones(mask(vector == Vector{})) < kStep; }
/// As 64-bit words.
template <class Any> inline Sums sums(Any vector) {
    static_assert(sizeof vector == sizeof(Sums));
    return reinterpret_cast<Sums>(vector);
}
inline uint64_t sum_of_even_words(Sums sums) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < kLanes; ++i)
        sum += sums[2 * i];
    return sum;
}
/// Bit `Bit` of each word in all of its bits.
template <int Bit> inline Vector bit_everywhere(Vector vector) {
    using Signed [[gnu::vector_size(sizeof(Vector))]] = int32_t;
    return mask(reinterpret_cast<Signed>(vector << (31 - Bit)) >> 31);
}

/// CQE words (byte count, info, hash, any) -> an mbuf's fields, the packet type left out.
inline constexpr uint8_t kNone = 0xff;
inline constexpr Lane kFieldsOrder = {kNone, kNone, kNone, kNone, 3,  2,  1, 0,
                                      3,     2,     7,     6,     11, 10, 9, 8};
/// Of striding queues: their byte count has other things above its low half.
inline constexpr Lane kStridingFieldsOrder = [] {
    static_assert(mlx5::kByteCountMask == 0xffff);
    Lane order = kFieldsOrder;
    order[6] = order[7] = kNone;
    return order;
}();

/// Mini CQEs (hash, byte count) -> fields of as many mbufs, one in each lane.
using MiniOrder = std::array<Lane, kLanes>;
using MiniOrders = std::array<MiniOrder, 2>; ///< without and with hash
constexpr MiniOrder mini_order(bool hashes, bool striding) {
    MiniOrder lanes{};
    for (uint8_t i = 0; i < kLanes; ++i) {
        const auto from = [&](int byte) { return static_cast<uint8_t>(8 * i + byte); };
        lanes[i] = {kNone,   kNone,   kNone, kNone, from(7), from(6), from(5), from(4),
                    from(7), from(6), kNone, kNone, from(3), from(2), from(1), from(0)};
        if (!hashes) std::fill_n(&lanes[i][12], 4, kNone);
        if (striding) std::fill_n(&lanes[i][6], 2, kNone); // see kStridingFieldsOrder
    }
    return lanes;
}
static_assert(sizeof(mlx5::MiniCqe) == 8);
inline constexpr MiniOrders kMiniOrders = {mini_order(false, false), mini_order(true, false)};
inline constexpr MiniOrders kStridingMiniOrders = {mini_order(false, true), mini_order(true, true)};
inline Vector load_order(const MiniOrder& order) {
    Vector vector;
    memcpy(&vector, &order, sizeof vector);
    return vector;
}
inline Vector all_but_hash() {
    constexpr uint32_t kMask[4] = {~0u, ~0u, ~0u, 0};
    return in_all_lanes(kMask);
}

/// What a kept checksum adds to pkt_len and data_len, as 16-bit words of an mbuf's fields.
inline Vector crc_of_lengths(const RxExtras& extras) {
    Lane lane{};
    lane[4] = lane[8] = extras.crc_bytes;
    return in_all_lanes(lane.data());
}
/// What a burst needs from the ring in registers.
struct Constants {
    template <class Ring>
    Constants(const Ring& ring, const Lane& order)
        : rearm(all_pairs(ring.rearm)),
          high_flags(
              all(static_cast<uint32_t>((ring.base_flags | ring.extras.timestamp_flag) >> 32))),
          stamp_flag(all(static_cast<uint32_t>(ring.extras.timestamp_flag))),
          crc(crc_of_lengths(ring.extras)), flags_mask(all(ring.flags_mask)),
          hash_flag(all(ring.hash_flag)), fields(in_all_lanes(order.data())) {}

    Vector rearm;
    Vector high_flags; ///< high half of the flags that every packet has …
    Vector stamp_flag; ///< … and the low half
    Vector crc;        ///< see crc_of_lengths
    Vector flags_mask;
    Vector hash_flag;
    Vector fields; ///< see kFieldsOrder
};

inline Vector look_up(const Lane& table, Vector index) {
    return shuffle(in_all_lanes(table.data()), index);
}
/// Indices into the tables of rx_describe.hpp, in the low byte of each word; look_up gives zero for
/// the other bytes.
struct Indices {
    explicit Indices(Vector info) {
        const Vector low_byte_only = all(0x80808000);
        static_assert(mlx5::kL3Ok << 1 == kLookupL3Ok && mlx5::kL4Ok << 1 == kLookupL4Ok);
        const Vector l3 = (info >> 10) & all(3);
        const Vector ok = info & all(mlx5::kL3Ok | mlx5::kL4Ok);
        const Vector l4 = (info >> 12) & all(0xf);
        first = (l3 | (ok << 1)) | low_byte_only;
        second = l4 | low_byte_only;
    }
    Vector first;
    Vector second;
};

inline Vector packet_types(const Indices& index) {
    const Vector l3 = look_up(kTypesL3, index.first);
    const Vector l4 = look_up(kTypesL4, index.second) & look_up(kTypeMasks, index.first);
    return l3 | (l4 << 8);
}

inline Vector offload_flags(const Constants& constants, const Indices& index, const CqeStep& step) {
    const Vector verdict = look_up(kVerdicts, index.first) & look_up(kVerdictMasks, index.second);
    const Vector good = (verdict << 8) & all(RTE_MBUF_F_RX_L4_CKSUM_GOOD);
    const Vector others = verdict & all(kVerdictIp | RTE_MBUF_F_RX_L4_CKSUM_BAD);

    const Vector stripped = bit_everywhere<8>(step.info);
    static_assert(mlx5::kVlanStripped == 1); // bit 8 of the info word
    const Vector vlan = stripped & all(RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED);
    const Vector flags = ((good | others) | vlan) & constants.flags_mask;

    const Vector not_hashed = mask((step.hash_type & all(0xff)) == Vector{});
    return flags | (constants.hash_flag & ~not_hashed);
}

/// Flow tags in host order.
inline Vector host_tags(Vector tag) {
    constexpr Lane kSwap = {3, 2, 1, kNone, 7, 6, 5, kNone, 11, 10, 9, kNone, 15, 14, 13, kNone};
    return shuffle(tag, in_all_lanes(kSwap.data()));
}

inline Vector mark_flags(Vector tags) {
    static_assert(kFlowTagNone == 0);
    const Vector none = mask(tags == Vector{});
    const Vector flag_only = mask(tags == all(kFlowTagFlag));
    const Vector id = all(RTE_MBUF_F_RX_FDIR_ID) & ~flag_only;
    return (id | all(RTE_MBUF_F_RX_FDIR)) & ~none;
}

/// kStep CQEs, described. Entries that the host does not own give garbage.
template <RxOptions O> struct DescribedStep : CqeStep {
    DescribedStep(const Constants& constants, const Cqe* cqes)
        : CqeStep(constants, cqes), tags(host_tags(tag)) {
        const Indices index(info);
        if constexpr (O.offloads) flags = offload_flags(constants, index, *this);
        if constexpr (O.mark) flags |= mark_flags(tags);
        if constexpr (O.stamps != Stamps::none) flags |= constants.stamp_flag;
        put_flags(constants, flags);
        this->template put_fields<O.crc>(constants, packet_types(index));
    }

    Vector tags;    ///< in host order
    Vector flags{}; ///< low halves of ol_flags
};

inline bool is_plain(const Cqe& cqe, uint8_t expected) {
    return (load_op_own(cqe) & Cq::kAllButSolicited) == expected;
}
inline uint32_t count_plain(const Cqe* cqes, uint32_t limit, uint8_t expected) {
    uint32_t count = 0;
    while (count < limit && is_plain(cqes[count], expected))
        ++count;
    return count;
}
/// Whether the device has written a step's entries. Their content is checked again later.
inline bool step_is_there(const Cqe* cqes, uint8_t expected) {
    if constexpr (kSeenInOrder) return is_plain(cqes[kStep - 1], expected);
    return count_plain(cqes, kStep, expected) == kStep;
}
/// How many of a step's CQEs, from the first on, are plain.
inline uint32_t plain_ones(const CqeStep& step, uint8_t expected) {
    const Vector op_own = step.op_own & all(uint32_t{Cq::kAllButSolicited} << 24);
    return leading_ones(mask(op_own == all(uint32_t{expected} << 24)));
}
inline void store_marks(Vector tags, rte_mbuf** mbufs, uint32_t count) {
    alignas(Vector) uint32_t ids[kStep];
    store_words(ids, tags - all(tag_of_mark(0)));
    for (uint32_t i = 0; i < count; ++i)
        mbufs[i]->hash.fdir.hi = ids[i];
}

/// The packet_info bits set in any of a step's CQEs.
inline uint8_t packet_infos(const Cqe* cqes) {
    uint8_t infos = 0;
    for (uint32_t i = 0; i < kStep; ++i)
        infos |= cqes[i].packet_info;
    return infos;
}
template <class Ring>
[[gnu::noinline, gnu::cold]] inline void tell_all_metadata(const Ring& ring, const Cqe* cqes,
                                                           rte_mbuf** mbufs, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
        tell_metadata(ring, cqes[i], *mbufs[i]);
}
template <class Ring>
[[gnu::noinline, gnu::cold]] inline void describe_tunnels(const Ring& ring, const Cqe* cqes,
                                                          rte_mbuf** mbufs, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
        if (cqes[i].packet_info & mlx5::kTunnelled) describe_tunnel(ring, cqes[i], *mbufs[i]);
}

/// Prefetches what a later step needs: mbufs, and the entries ahead of those from `index` on.
/// Alternately, and after the entries of this step were loaded: a CPU has room for only so many
/// outstanding lines (two dozen or fewer), and a request beyond these stalls everything behind it.
/// Mbufs are prefetched for writing: where another core has a copy, as one that reads ahead behind
/// long packets may, a store would have to request the line again.
inline void fetch_later_step(const Cq& cq, uint32_t index, rte_mbuf* const* mbufs) {
    for (uint32_t i = 0; i < kStep; ++i) {
        claim_line(mbufs[ahead::kMbufs + i]); // may be null
        cq.fetch_ahead(index + i);
    }
}

/// As take_steps, when the first step is there.
template <RxOptions O>
[[gnu::noinline]] uint32_t take_whole_steps(MlxRxRing& ring, const Cqe* cqes, uint8_t expected,
                                            rte_mbuf** packets, uint32_t run, uint64_t& bytes) {
    rte_mbuf** const mbufs = &ring.mbufs[ring.cq.rq_consumer & ring.mask];
    const mlx5::WqeDataSeg* const wqes = ring.next_wqes();
    const Constants constants(ring, kFieldsOrder);
    Sums lengths{};
    Vector flags{};
    uint32_t taken = 0;
    uint8_t infos = 0; // of all packets looked at
    do {
        owner_before_content();
        const Cqe* const entries = cqes + taken;
        const DescribedStep<O> step(constants, entries);
        if (plain_ones(step, expected) < kStep) [[unlikely]]
            break;
        claim_wqes(wqes + taken, kStep);
        fetch_later_step(ring.cq, ring.cq.consumer + taken, mbufs + taken);
        copy_pointers(packets + taken, mbufs + taken);
        step.store(mbufs + taken);
        if constexpr (O.mark) store_marks(step.tags, mbufs + taken, kStep);
        lengths += step.lengths();
        infos |= packet_infos(entries);
        if constexpr (O.offloads) flags |= step.flags;
        taken += kStep;
    } while (run - taken >= kStep && step_is_there(cqes + taken, expected));
    if constexpr (O.stamps != Stamps::none)
        for (uint32_t i = 0; i < taken; ++i)
            stamp<O>(ring, cqes[i], *mbufs[i]);
    if constexpr (O.mark)
        if (ring.metadata_flag != 0) [[unlikely]]
            tell_all_metadata(ring, cqes, mbufs, taken);
    if (infos & mlx5::kTunnelled) [[unlikely]] // in the loop a call would cost registers
        describe_tunnels(ring, cqes, mbufs, taken);
    if constexpr (O.offloads)
        if (any(flags & all(kUnproven))) [[unlikely]]
            settle_checksums(mbufs, taken);
    bytes += sum_of_even_words(lengths);
    return taken;
}

/// Takes, of up to `run` packets, none of them beyond the end of ring or CQ, as many as make whole
/// steps of plain CQEs. The ring has not moved past them yet. `cqes`: the entries at the consumer
/// index; `expected`: the op_own of those with packets.
template <RxOptions O>
inline uint32_t take_steps(MlxRxRing& ring, const Cqe* cqes, uint8_t expected, rte_mbuf** packets,
                           uint32_t run, uint64_t& bytes) {
    if (run < kStep || !is_plain(cqes[0], expected) || !step_is_there(cqes, expected)) return 0;
    return take_whole_steps<O>(ring, cqes, expected, packets, run, bytes);
}

/// Describes packets of the present block from their mini CQEs, as many at once as there are lanes.
template <RxOptions O> class MiniStep {
  public:
    template <class Ring>
    MiniStep(Ring& ring, const MiniOrders& orders)
        : model_(ring.block.model()), first_(in_all_lanes(first_half(&model_))),
          // Its lengths are zero, and the hash is not its own.
          common_(in_all_lanes(second_half(&model_)) & all_but_hash()),
          order_(load_order(orders[ring.block.hashes])), crc_(crc_of_lengths(ring.extras)) {}

    /// Returns the lengths, in the even words.
    Sums describe(const mlx5::MiniCqe* minis, rte_mbuf** mbufs) const {
        Vector second = shuffle(load_minis(minis), order_) | common_;
        if constexpr (O.crc) second = minus16(second, crc_);
        store<0>(second, mbufs[0]);
        if constexpr (kLanes == 2) store<1>(second, mbufs[1]);
        return sums(second) >> 32;
    }

  private:
    template <uint32_t InLane> void store(Vector second, rte_mbuf* mbuf) const {
        store_lane<InLane>(first_half(mbuf), first_);
        store_lane<InLane>(second_half(mbuf), second);
        if constexpr (O.mark) mbuf->hash.fdir.hi = model_.hash.fdir.hi;
    }

    rte_mbuf& model_;
    Vector first_, common_, order_, crc_;
};

/// Metadata of packets that a block has described.
template <RxOptions O, class Ring>
inline void tell_metadata_of_block(Ring& ring, rte_mbuf** mbufs, uint32_t count) {
    if constexpr (O.mark)
        if (ring.block.model().ol_flags & ring.metadata_flag) [[unlikely]]
            for (uint32_t i = 0; i < count; ++i)
                copy_metadata(ring, ring.block.model(), *mbufs[i]);
}

/// Takes the packets of a whole array of mini CQEs. Returns true: vectors can do it.
template <RxOptions O>
bool decompress_array(MlxRxRing& ring, const mlx5::MiniCqe* minis, rte_mbuf** mbufs,
                      rte_mbuf** packets, uint64_t& bytes) {
    const MiniStep<O> step(ring, kMiniOrders);
    Sums lengths{};
    for (uint32_t i = 0; i < mlx5::kMiniCqes; ++i)
        claim_line(mbufs[ahead::kMbufsInBlocks + i]); // may be null
    for (uint32_t i = 0; i < mlx5::kMiniCqes; i += kLanes) {
        lengths += step.describe(&minis[i], &mbufs[i]);
        std::copy_n(&mbufs[i], kLanes, &packets[i]);
    }
    tell_metadata_of_block<O>(ring, mbufs, mlx5::kMiniCqes);
    bytes += sum_of_even_words(lengths);
    return true;
}

} // namespace
} // namespace rawqp::mlx5rings
