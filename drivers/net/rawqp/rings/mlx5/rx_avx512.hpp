// SPDX-License-Identifier: BSD-3-Clause
// Steps of CQEs with AVX-512: see rx_vector.hpp. A CQE is one load, and one permutation combines
// the fields of two. The results are AVX2 vectors.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_avx2.hpp"

namespace rawqp::mlx5rings {
namespace {

constexpr int kOther = 16; // first index into the second operand of a permutation of words

/// Four packets' rearm word and flags from (flags, (rearm …, high flags …)), for flags from `i` on.
inline __m512i first_order(int i) {
    return _mm512_add_epi32(
        _mm512_setr_epi32(16, 17, 0, 24, 16, 17, 1, 24, 16, 17, 2, 24, 16, 17, 3, 24),
        _mm512_mask_set1_epi32(_mm512_setzero_si512(), 0x4444, i));
}
/// Words `i` and on to the first word of each lane.
inline __m512i spread_order(int i) {
    return _mm512_setr_epi32(i, 0, 0, 0, i + 1, 0, 0, 0, i + 2, 0, 0, 0, i + 3, 0, 0, 0);
}
/// Two packets, 32 bytes each, of the lanes of their halves: 0 and 1, or 2 and 3.
inline __m512i low_pair() { return _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11); }
inline __m512i high_pair() { return _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15); }

struct Avx512Step {
    template <class Constants> Avx512Step(const Constants&, const Cqe* cqes) {
        // Words 11, 7, 3, 4 of a CQE are byte count, info, hash and hash type; 14 and 15 hold tag
        // and op_own.
        const __m512i pick =
            _mm512_setr_epi32(11, 7, 3, 4, kOther + 11, kOther + 7, kOther + 3, kOther + 4, 14, 15,
                              kOther + 14, kOther + 15, 0, 0, 0, 0);
        const auto pair = [&](int i) {
            return _mm512_permutex2var_epi32(_mm512_loadu_si512(&cqes[i]), pick,
                                             _mm512_loadu_si512(&cqes[i + 1]));
        };
        const __m512i p01 = pair(0), p23 = pair(2), p45 = pair(4), p67 = pair(6);
        rows_[0] = join(p01, p23);
        rows_[1] = join(p45, p67);
        collect(p01, p23, p45, p67);
    }

    template <class Constants> void put_flags(const Constants& constants, Vector flags) {
        const __m512i low_flags = _mm512_castsi256_si512(raw(flags));
        // rearm (two words) and high flags, the same for all packets
        const __m512i common = _mm512_inserti64x4(_mm512_castsi256_si512(raw(constants.rearm)),
                                                  raw(constants.high_flags), 1);
        for (int i = 0; i < 2; ++i)
            first_[i] = _mm512_permutex2var_epi32(low_flags, first_order(4 * i), common);
    }
    template <bool Crc, class Constants>
    void put_fields(const Constants& constants, Vector packet_types) {
        const __m512i types = _mm512_castsi256_si512(raw(packet_types));
        const __m512i fields =
            _mm512_broadcast_i32x4(_mm256_castsi256_si128(raw(constants.fields)));
        for (int i = 0; i < 2; ++i) {
            __m512i second = _mm512_mask_permutexvar_epi32(_mm512_shuffle_epi8(rows_[i], fields),
                                                           0x1111, spread_order(4 * i), types);
            if constexpr (Crc)
                second = _mm512_sub_epi16(second, _mm512_broadcast_i64x4(raw(constants.crc)));
            packets_[2 * i] = _mm512_permutex2var_epi64(first_[i], low_pair(), second);
            packets_[2 * i + 1] = _mm512_permutex2var_epi64(first_[i], high_pair(), second);
        }
    }
    void store(rte_mbuf** mbufs) const {
        for (int i = 0; i < 4; ++i) {
            store32(first_half(mbufs[2 * i]), _mm512_castsi512_si256(packets_[i]));
            store32(first_half(mbufs[2 * i + 1]), _mm512_extracti64x4_epi64(packets_[i], 1));
        }
    }
    [[nodiscard]] Sums lengths() const {
        const auto length = [this](int i) { return _mm512_srli_epi64(packets_[i], 32); };
        const __m512i sum = _mm512_add_epi64(_mm512_add_epi64(length(0), length(1)),
                                             _mm512_add_epi64(length(2), length(3)));
        // Word 2 of each packet's four is (packet type, length).
        return reinterpret_cast<Sums>(
            _mm256_maskz_mov_epi64(1 << 2, _mm256_add_epi64(_mm512_castsi512_si256(sum),
                                                            _mm512_extracti64x4_epi64(sum, 1))));
    }

    Vector info, hash_type, tag, op_own;

  private:
    static __m512i join(__m512i low, __m512i high) {
        return _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
    }
    void collect(__m512i p01, __m512i p23, __m512i p45, __m512i p67) {
        const __m512i both = _mm512_permutex2var_epi32(
            rows_[0],
            _mm512_setr_epi32(1, 5, 9, 13, kOther + 1, kOther + 5, kOther + 9, kOther + 13, 3, 7,
                              11, 15, kOther + 3, kOther + 7, kOther + 11, kOther + 15),
            rows_[1]);
        info = words(_mm512_castsi512_si256(both));
        hash_type = words(_mm512_extracti64x4_epi64(both, 1));
        // tag 0, op_own 0, tag 1, op_own 1 at words 8 to 11
        const __m512i ends = _mm512_setr_epi32(8, 10, kOther + 8, kOther + 10, 0, 0, 0, 0, 9, 11,
                                               kOther + 9, kOther + 11, 0, 0, 0, 0);
        const __m512i low = _mm512_permutex2var_epi32(p01, ends, p23);
        const __m512i high = _mm512_permutex2var_epi32(p45, ends, p67);
        const __m512i joined =
            _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), high);
        tag = words(_mm512_castsi512_si256(joined));
        op_own = words(_mm512_extracti64x4_epi64(joined, 1));
    }

    __m512i rows_[2];    ///< four packets each: byte count, info, hash, hash type
    __m512i first_[2];   ///< first halves of four mbufs each
    __m512i packets_[4]; ///< two packets each, 32 bytes a packet
};

} // namespace
} // namespace rawqp::mlx5rings
