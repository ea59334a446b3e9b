// SPDX-License-Identifier: BSD-3-Clause
// The operations that vector readers are made of, in the instruction set that the object is
// compiled for. A Vector is kStep 32-bit words, a lane 16 bytes of it; bitwise operators, shifts
// and comparisons (all bits or none of a word) are the compilers' own for such types.
//   in_all_lanes(bytes)      16 of them
//   store_words(to, vector)
//   shuffle(bytes, order)    within lanes; an index of 0x80 or more gives zero
//   minus16(a, b)            as 16-bit words
//   store_lane<Lane>(to, vector)
//   leading_ones(mask)       of a comparison: its first words that are true
//   copy_pointers(to, from)  kStep of them
//   load_minis(minis)        as many as there are lanes, all in each lane
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <array>
#include <bit>

namespace rawqp::mlx5rings {

using Lane = std::array<uint8_t, 16>;

} // namespace rawqp::mlx5rings

#if defined(__x86_64__)
#include "drivers/net/rawqp/rings/mlx5/rx_simd_x86.hpp"
#else
#include "drivers/net/rawqp/rings/mlx5/rx_simd_neon.hpp"
#endif

namespace rawqp::mlx5rings {
namespace {

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
/// Four pointers, or as many addresses.
using Pointers [[gnu::vector_size(32)]] = uint64_t;
using PointersAt [[gnu::vector_size(32), gnu::aligned(sizeof(void*)), gnu::may_alias]] = uint64_t;
inline Pointers load_pointers(const void* from) { return *static_cast<const PointersAt*>(from); }
inline void store_pointers(void* to, Pointers pointers) {
    *static_cast<PointersAt*>(to) = pointers;
}
/// The bytes of each in reverse.
inline Pointers big_endian(Pointers addresses) {
    using Bytes [[gnu::vector_size(32)]] = uint8_t;
    const auto bytes = reinterpret_cast<Bytes>(addresses);
    return reinterpret_cast<Pointers>(
        __builtin_shufflevector(bytes, bytes, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8,
                                23, 22, 21, 20, 19, 18, 17, 16, 31, 30, 29, 28, 27, 26, 25, 24));
}
/// Bit `Bit` of each word in all of its bits.
template <int Bit> inline Vector bit_everywhere(Vector vector) {
    using Signed [[gnu::vector_size(sizeof(Vector))]] = int32_t;
    return mask(reinterpret_cast<Signed>(vector << (31 - Bit)) >> 31);
}

} // namespace
} // namespace rawqp::mlx5rings
