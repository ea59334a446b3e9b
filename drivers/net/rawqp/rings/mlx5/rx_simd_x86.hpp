// SPDX-License-Identifier: BSD-3-Clause
// What rx_vector.hpp needs of AVX2, for objects of AVX2 and those above. See rx_simd.hpp.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"

namespace rawqp::mlx5rings {
namespace {

constexpr uint32_t kStep = 8;
/// The device's writes are seen in their order: when a step's last entry is there, the others are.
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
inline Vector load_minis(const mlx5::MiniCqe* minis) {
    return words(_mm256_broadcastsi128_si256(load16(minis)));
}

} // namespace
} // namespace rawqp::mlx5rings
