// SPDX-License-Identifier: BSD-3-Clause
// Steps of CQEs with AVX2: see rx_vector.hpp. Packets i and i + 4 of a step share a register, one
// in each 128-bit lane, so that shuffles within lanes do for both.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_describe.hpp"

#include <bit>

namespace rawqp::mlx5rings {
namespace {

constexpr uint32_t kStep = 8;
/// The device's writes are seen in order: when a step's last entry is there, so are the others.
constexpr bool kSeenInOrder = true;

using Vector [[gnu::vector_size(32)]] = uint32_t;
using Sums [[gnu::vector_size(32)]] = uint64_t;

inline __m256i raw(Vector vector) { return reinterpret_cast<__m256i>(vector); }
inline Vector words(__m256i value) { return reinterpret_cast<Vector>(value); }

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

inline void store_words(uint32_t* to, Vector vector) { store32(to, raw(vector)); }
inline Vector in_all_lanes(const void* bytes) {
    return words(_mm256_broadcastsi128_si256(load16(bytes)));
}
inline Vector shuffle(Vector bytes, Vector order) {
    return words(_mm256_shuffle_epi8(raw(bytes), raw(order)));
}
inline Vector minus16(Vector a, Vector b) { return words(_mm256_sub_epi16(raw(a), raw(b))); }

template <uint32_t Lane> inline void store_lane(void* to, Vector vector) {
    if constexpr (Lane == 0)
        store16(to, _mm256_castsi256_si128(raw(vector)));
    else
        store16(to, _mm256_extracti128_si256(raw(vector), 1));
}
inline uint32_t leading_ones(Vector mask) {
    const auto bits = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(raw(mask))));
    return static_cast<uint32_t>(std::countr_one(bits));
}
inline void copy_pointers(rte_mbuf** to, rte_mbuf* const* from) {
    store32(to, load32(from));
    store32(to + 4, load32(from + 4));
}
inline void copy_64(uint8_t* to, const uint8_t* from) {
    const __m256i first = load32(from), second = load32(from + 32);
    store32(to, first);
    store32(to + 32, second);
}
inline Vector load_minis(const mlx5::MiniCqe* minis) {
    return words(_mm256_broadcastsi128_si256(load16(minis)));
}

inline __m256i lanes(const uint8_t* low, const uint8_t* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(low)), load16(high), 1);
}

/// Word `Word` of packets 0 to 7.
template <int Word> inline __m256i column(const __m256i (&rows)[4]) {
    constexpr bool kHigh = Word >= 2;
    const auto unpack = [](__m256i a, __m256i b) {
        return kHigh ? _mm256_unpackhi_epi32(a, b) : _mm256_unpacklo_epi32(a, b);
    };
    const __m256i a = unpack(rows[0], rows[1]);
    const __m256i b = unpack(rows[2], rows[3]);
    return Word % 2 == 0 ? _mm256_unpacklo_epi64(a, b) : _mm256_unpackhi_epi64(a, b);
}

struct Avx2Step {
    template <class Constants> Avx2Step(const Constants&, const Cqe* cqes) {
        __m256i ends[4]; // the last 16 bytes
        for (int i = 0; i < 4; ++i) {
            const auto* const low = reinterpret_cast<const uint8_t*>(&cqes[i]);
            const auto* const high = reinterpret_cast<const uint8_t*>(&cqes[i + 4]);
            // Each load puts its field into the word that needs it.
            const __m256i bytes = lanes(low + 44, high + 44);
            const __m256i info = lanes(low + 24, high + 24);
            const __m256i hash = lanes(low + 4, high + 4);
            rows_[i] = _mm256_blend_epi32(_mm256_blend_epi32(bytes, info, 0x22), hash, 0xcc);
            ends[i] = lanes(low + 48, high + 48);
        }
        info = words(column<1>(rows_));
        hash_type = words(column<3>(rows_));
        tag = words(column<2>(ends));
        op_own = words(column<3>(ends));
    }

    template <class Constants> void put_flags(const Constants& constants, Vector flags) {
        const __m256i rearm = raw(constants.rearm), high_flags = raw(constants.high_flags);
        const __m256i flags01 = _mm256_unpacklo_epi32(raw(flags), high_flags);
        const __m256i flags23 = _mm256_unpackhi_epi32(raw(flags), high_flags);
        first_[0] = _mm256_unpacklo_epi64(rearm, flags01);
        first_[1] = _mm256_blend_epi32(rearm, flags01, 0xcc);
        first_[2] = _mm256_unpacklo_epi64(rearm, flags23);
        first_[3] = _mm256_blend_epi32(rearm, flags23, 0xcc);
    }
    template <bool Crc, class Constants>
    void put_fields(const Constants& constants, Vector packet_types) {
        const __m256i types = raw(packet_types);
        const __m256i type[4] = {types, _mm256_srli_si256(types, 4), _mm256_srli_si256(types, 8),
                                 _mm256_srli_si256(types, 12)};
        for (int i = 0; i < 4; ++i) {
            const __m256i fields = _mm256_shuffle_epi8(rows_[i], raw(constants.fields));
            second_[i] = _mm256_blend_epi32(fields, type[i], 0x11);
            if constexpr (Crc) second_[i] = _mm256_sub_epi16(second_[i], raw(constants.crc));
        }
    }
    void store(rte_mbuf** mbufs) const {
        for (int i = 0; i < 4; ++i) {
            store16(first_half(mbufs[i]), _mm256_castsi256_si128(first_[i]));
            store16(second_half(mbufs[i]), _mm256_castsi256_si128(second_[i]));
            store16(first_half(mbufs[i + 4]), _mm256_extracti128_si256(first_[i], 1));
            store16(second_half(mbufs[i + 4]), _mm256_extracti128_si256(second_[i], 1));
        }
    }
    [[nodiscard]] Sums lengths() const {
        const auto length = [this](int i) { return reinterpret_cast<Sums>(second_[i]) >> 32; };
        return (length(0) + length(1)) + (length(2) + length(3));
    }

    Vector info, hash_type, tag, op_own;

  private:
    __m256i rows_[4]; ///< byte count, info, hash, hash type
    __m256i first_[4];
    __m256i second_[4];
};

} // namespace
} // namespace rawqp::mlx5rings
