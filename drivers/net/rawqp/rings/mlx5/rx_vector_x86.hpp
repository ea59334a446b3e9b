// SPDX-License-Identifier: BSD-3-Clause
// What the AVX2 and AVX-512 readers share: eight CQEs a step, described in 256-bit registers that
// hold one 32-bit field of each. An instruction set has its own way to gather and to store them:
//   Step<O>            eight packets as mbufs want them: members words, tags
//   Step<O>(constants, cqes)        from eight CQEs; what is not the host's gives garbage
//   store(i, mbuf), store_all(mbufs)
//   lengths()          the sum of pkt_len
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_lookup.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_receive.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_refill_x86.hpp"

#include <bit>

namespace rawqp::mlx5rings {
namespace {

constexpr uint32_t kStep = 8; // packets

// The 32 bytes of an mbuf that receive writes: rearm word and flags, then these fields.
static_assert(offsetof(rte_mbuf, ol_flags) == offsetof(rte_mbuf, rearm_data) + 8);
static_assert(offsetof(rte_mbuf, packet_type) == offsetof(rte_mbuf, rearm_data) + 16);
static_assert(offsetof(rte_mbuf, pkt_len) == offsetof(rte_mbuf, packet_type) + 4);
static_assert(offsetof(rte_mbuf, data_len) == offsetof(rte_mbuf, packet_type) + 8);
static_assert(offsetof(rte_mbuf, vlan_tci) == offsetof(rte_mbuf, packet_type) + 10);
static_assert(offsetof(rte_mbuf, hash.rss) == offsetof(rte_mbuf, packet_type) + 12);
inline void* first_half(rte_mbuf* mbuf) { return compat::mbuf_rearm_word(mbuf); }
inline void* second_half(rte_mbuf* mbuf) { return compat::mbuf_rx_fields(mbuf); }

inline __m128i load16(const void* from) {
    return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
inline void store16(void* to, __m128i value) { _mm_storeu_si128(static_cast<__m128i*>(to), value); }
inline __m256i load32(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
inline void store32(void* to, __m256i value) {
    _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}
inline __m256i both_lanes(__m128i value) { return _mm256_broadcastsi128_si256(value); }
inline __m256i all(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
inline uint64_t sum_of_even_words(__m256i sums) {
    return static_cast<uint64_t>(_mm256_extract_epi64(sums, 0)) +
           static_cast<uint64_t>(_mm256_extract_epi64(sums, 2));
}

/// CQE words (byte count, info, hash, any) -> an mbuf's fields, the packet type left out.
inline __m128i fields_order() {
    return _mm_setr_epi8(-1, -1, -1, -1, 3, 2, 1, 0, 3, 2, 7, 6, 11, 10, 9, 8);
}

/// What a kept checksum adds to pkt_len and data_len, as 16-bit words of an mbuf's fields.
inline __m128i crc_of_lengths(const MlxRxRing& ring) {
    const auto crc = static_cast<int16_t>(ring.extras.crc_bytes);
    return _mm_setr_epi16(0, 0, crc, 0, crc, 0, 0, 0);
}
/// The fields of mbufs, one in each lane.
template <RxOptions O> inline __m256i without_crc(__m256i fields, __m256i crc) {
    return O.crc ? _mm256_sub_epi16(fields, crc) : fields;
}

/// What a burst needs of the ring in registers.
struct Constants {
    explicit Constants(const MlxRxRing& ring)
        : rearm(_mm256_set1_epi64x(static_cast<int64_t>(ring.rearm))),
          high_flags(
              all(static_cast<uint32_t>((ring.base_flags | ring.extras.timestamp_flag) >> 32))),
          stamp_flag(all(static_cast<uint32_t>(ring.extras.timestamp_flag))),
          crc(both_lanes(crc_of_lengths(ring))), flags_mask(all(ring.flags_mask)),
          hash_flag(all(ring.hash_flag)) {}

    __m256i rearm;
    __m256i high_flags; ///< high half of the flags that every packet has …
    __m256i stamp_flag; ///< … and the low half
    __m256i crc;        ///< see crc_of_lengths
    __m256i flags_mask;
    __m256i hash_flag;
    __m256i fields = both_lanes(fields_order());
};

/// Fields of eight CQEs, packets 0 to 7.
struct Words {
    __m256i info;      ///< bytes 28 to 31: hds_ip_ext, l4_l3_type, vlan_info
    __m256i hash_type; ///< in the low byte
    __m256i tag;       ///< big-endian
    __m256i op_own;    ///< in the high byte
};

inline __m256i look_up(const Lookup& table, __m256i index) {
    return _mm256_shuffle_epi8(both_lanes(load16(table.data())), index);
}

/// Indices into the tables of rx_lookup.hpp, in the low byte of each word; look_up gives zero for
/// the other bytes.
struct Indices {
    explicit Indices(__m256i info) {
        constexpr uint32_t kLowByteOnly = 0x80808000;
        static_assert(mlx5::kL3Ok << 1 == kLookupL3Ok && mlx5::kL4Ok << 1 == kLookupL4Ok);
        const __m256i l3 = _mm256_and_si256(_mm256_srli_epi32(info, 10), all(3));
        const __m256i ok = _mm256_and_si256(info, all(mlx5::kL3Ok | mlx5::kL4Ok));
        const __m256i l4 = _mm256_and_si256(_mm256_srli_epi32(info, 12), all(0xf));
        first = _mm256_or_si256(_mm256_or_si256(l3, _mm256_slli_epi32(ok, 1)), all(kLowByteOnly));
        second = _mm256_or_si256(l4, all(kLowByteOnly));
    }
    __m256i first;
    __m256i second;
};

inline __m256i packet_types(const Indices& index) {
    const __m256i l3 = look_up(kTypesL3, index.first);
    const __m256i l4 =
        _mm256_and_si256(look_up(kTypesL4, index.second), look_up(kTypeMasks, index.first));
    return _mm256_or_si256(l3, _mm256_slli_epi32(l4, 8));
}

inline __m256i offload_flags(const Constants& constants, const Indices& index, const Words& words) {
    const __m256i verdict =
        _mm256_and_si256(look_up(kVerdicts, index.first), look_up(kVerdictMasks, index.second));
    const __m256i good =
        _mm256_and_si256(_mm256_slli_epi32(verdict, 8), all(RTE_MBUF_F_RX_L4_CKSUM_GOOD));
    const __m256i others = _mm256_and_si256(verdict, all(kVerdictIp | RTE_MBUF_F_RX_L4_CKSUM_BAD));

    static_assert(mlx5::kVlanStripped == 1); // bit 8 of the info word: spread over all of it
    const __m256i stripped = _mm256_srai_epi32(_mm256_slli_epi32(words.info, 23), 31);
    const __m256i vlan =
        _mm256_and_si256(stripped, all(RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED));
    const __m256i flags = _mm256_and_si256(_mm256_or_si256(_mm256_or_si256(good, others), vlan),
                                           constants.flags_mask);

    const __m256i not_hashed =
        _mm256_cmpeq_epi32(_mm256_and_si256(words.hash_type, all(0xff)), _mm256_setzero_si256());
    return _mm256_or_si256(flags, _mm256_andnot_si256(not_hashed, constants.hash_flag));
}

/// Flow tags in host order.
inline __m256i host_tags(__m256i tag) {
    return _mm256_shuffle_epi8(
        tag, both_lanes(_mm_setr_epi8(3, 2, 1, -1, 7, 6, 5, -1, 11, 10, 9, -1, 15, 14, 13, -1)));
}

inline __m256i mark_flags(__m256i tags) {
    static_assert(kFlowTagNone == 0);
    const __m256i none = _mm256_cmpeq_epi32(tags, _mm256_setzero_si256());
    const __m256i flag_only = _mm256_cmpeq_epi32(tags, all(kFlowTagFlag));
    const __m256i id = _mm256_andnot_si256(flag_only, all(RTE_MBUF_F_RX_FDIR_ID));
    return _mm256_andnot_si256(none, _mm256_or_si256(id, all(RTE_MBUF_F_RX_FDIR)));
}

/// Low halves of ol_flags.
template <RxOptions O>
inline __m256i all_flags(const Constants& constants, const Indices& index, const Words& words,
                         __m256i tags) {
    __m256i flags = _mm256_setzero_si256();
    if constexpr (O.offloads) flags = offload_flags(constants, index, words);
    if constexpr (O.mark) flags = _mm256_or_si256(flags, mark_flags(tags));
    if constexpr (O.stamps != Stamps::none) flags = _mm256_or_si256(flags, constants.stamp_flag);
    return flags;
}

/// The reader of an instruction set.
template <class Isa> struct VectorReader {
    static constexpr std::string_view kName = Isa::kName;

    template <RxOptions O>
    static uint32_t take(MlxRxRing& ring, rte_mbuf** packets, uint32_t run, uint32_t room,
                         uint64_t& bytes) {
        const uint8_t expected = ring.cq.expected(CqeOpcode::resp_send, ring.cq.consumer);
        const Cqe* const cqes = &ring.cq.at(ring.cq.consumer);
        rte_mbuf** const mbufs = slot_mbufs<O>(ring, ring.consumer);
        const Constants constants(ring);
        __m256i sums = _mm256_setzero_si256();
        uint32_t taken = 0;
        uint8_t infos = 0; // of all that was looked at
        bool more = true;
        while (more && taken < run && room - taken >= kStep) {
            uint32_t count = std::min(kStep, run - taken);
            // Entries are written in order: when the eighth is there, the others are.
            if (count < kStep || !is_plain(cqes[taken + kStep - 1], expected)) {
                count = count_plain(cqes + taken, count, expected);
                more = false;
                if (count == 0) break;
            }
            owner_before_content();
            if (room - taken >= 2 * kStep)
                for (uint32_t i = kStep; i < 2 * kStep; ++i)
                    __builtin_prefetch(first_half(mbufs[taken + i]), 1);
            const Cqe* const eight = cqes + taken;
            const typename Isa::template Step<O> step(constants, eight);
            count = std::min(count, plain_ones(step.words, expected));
            if (count == kStep) [[likely]] {
                store32(packets + taken, load32(mbufs + taken));
                store32(packets + taken + 4, load32(mbufs + taken + 4));
                step.store_all(mbufs + taken);
                if constexpr (O.mark) store_marks(step.tags, mbufs + taken, kStep);
                sums = _mm256_add_epi64(sums, step.lengths());
            } else {
                more = false;
                for (uint32_t i = taken; i < taken + count; ++i) {
                    packets[i] = mbufs[i];
                    step.store(i - taken, mbufs[i]);
                    bytes += mbufs[i]->pkt_len;
                }
                if constexpr (O.mark) store_marks(step.tags, mbufs + taken, count);
            }
            infos |= packet_infos(eight);
            taken += count;
        }
        if constexpr (O.stamps != Stamps::none)
            for (uint32_t i = 0; i < taken; ++i)
                stamp<O>(ring, cqes[i], *mbufs[i]);
        if (infos & mlx5::kTunnelled) [[unlikely]] // in the loop a call would cost registers
            describe_tunnels(cqes, mbufs, taken);
        bytes += sum_of_even_words(sums);
        ring.cq.consumer += taken;
        ring.consumer = static_cast<uint16_t>(ring.consumer + taken);
        if (!more || taken == run) return taken;
        return taken + take_single<O>(ring, packets + taken, run - taken, bytes); // near the end
    }

    template <RxOptions O>
    static void expand(MlxRxRing& ring, const mlx5::MiniCqe* minis, rte_mbuf** mbufs,
                       rte_mbuf** packets, uint32_t count, uint64_t& bytes) {
        if (count < mlx5::kMiniCqes)
            return expand_single<O>(ring, minis, mbufs, packets, count, bytes);
        rte_mbuf& model = ring.block.model();
        const __m128i first = load16(first_half(&model));
        const __m256i common = both_lanes(
            _mm_setr_epi32(static_cast<int>(model.packet_type), 0, model.vlan_tci << 16, 0));
        const __m256i order = mini_order(ring.block.hashes);
        const __m256i crc = both_lanes(crc_of_lengths(ring));
        __m256i sums = _mm256_setzero_si256();
        for (uint32_t i = 0; i < mlx5::kMiniCqes; i += 2) {
            const __m256i pair = both_lanes(load16(&minis[i]));
            const __m256i second =
                without_crc<O>(_mm256_or_si256(_mm256_shuffle_epi8(pair, order), common), crc);
            rte_mbuf* const a = packets[i] = mbufs[i];
            rte_mbuf* const b = packets[i + 1] = mbufs[i + 1];
            store16(first_half(a), first);
            store16(second_half(a), _mm256_castsi256_si128(second));
            store16(first_half(b), first);
            store16(second_half(b), _mm256_extracti128_si256(second, 1));
            if constexpr (O.mark) a->hash.fdir.hi = b->hash.fdir.hi = model.hash.fdir.hi;
            sums = _mm256_add_epi64(sums, _mm256_srli_epi64(second, 32));
        }
        bytes += sum_of_even_words(sums);
    }

    static bool refill(MlxRxRing& ring) { return refill_from_cache(ring); }

  private:
    static bool is_plain(const Cqe& cqe, uint8_t expected) {
        return (load_op_own(cqe) & Cq::kAllButSolicited) == expected;
    }
    static uint32_t count_plain(const Cqe* cqes, uint32_t limit, uint8_t expected) {
        uint32_t count = 0;
        while (count < limit && is_plain(cqes[count], expected))
            ++count;
        return count;
    }
    /// How many of a step's CQEs, from the first on, are plain.
    static uint32_t plain_ones(const Words& words, uint8_t expected) {
        const __m256i op_own =
            _mm256_and_si256(words.op_own, all(uint32_t{Cq::kAllButSolicited} << 24));
        const __m256i plain = _mm256_cmpeq_epi32(op_own, all(uint32_t{expected} << 24));
        const auto mask = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(plain)));
        return static_cast<uint32_t>(std::countr_one(mask));
    }
    /// The bits of all of a step's CQEs.
    static uint8_t packet_infos(const Cqe* cqes) {
        uint8_t infos = 0;
        for (uint32_t i = 0; i < kStep; ++i)
            infos |= cqes[i].packet_info;
        return infos;
    }
    [[gnu::noinline, gnu::cold]] static void describe_tunnels(const Cqe* cqes, rte_mbuf** mbufs,
                                                              uint32_t count) {
        for (uint32_t i = 0; i < count; ++i)
            if (cqes[i].packet_info & mlx5::kTunnelled) describe_tunnel(cqes[i], *mbufs[i]);
    }
    static void store_marks(__m256i tags, rte_mbuf** mbufs, uint32_t count) {
        alignas(32) uint32_t ids[kStep];
        store32(ids, _mm256_sub_epi32(tags, all(tag_of_mark(0))));
        for (uint32_t i = 0; i < count; ++i)
            mbufs[i]->hash.fdir.hi = ids[i];
    }
    /// Two mini CQEs (hash, byte count) -> fields of two mbufs, one in each lane.
    static __m256i mini_order(bool hashes) {
        const __m128i low = _mm_setr_epi8(-1, -1, -1, -1, 7, 6, 5, 4, 7, 6, -1, -1, 3, 2, 1, 0);
        const __m128i high =
            _mm_setr_epi8(-1, -1, -1, -1, 15, 14, 13, 12, 15, 14, -1, -1, 11, 10, 9, 8);
        const __m256i order = _mm256_setr_m128i(low, high);
        return hashes ? order : _mm256_or_si256(order, _mm256_setr_epi32(0, 0, 0, -1, 0, 0, 0, -1));
    }
};

} // namespace
} // namespace rawqp::mlx5rings
