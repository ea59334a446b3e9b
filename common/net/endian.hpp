// SPDX-License-Identifier: BSD-3-Clause
// Big-endian fields of wire and hardware formats, typed so that they cannot be used unswapped.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace net {

template <class T> [[nodiscard]] constexpr T byteswap(T value) {
    static_assert(std::is_unsigned_v<T>);
    if constexpr (sizeof(T) == 1) return value;
    if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(value);
    if constexpr (sizeof(T) == 8) return __builtin_bswap64(value);
}

/// Host order to network order and back (its own inverse).
template <class T> [[nodiscard]] constexpr T to_be(T value) {
    return std::endian::native == std::endian::little ? byteswap(value) : value;
}

/// A field stored in big-endian order: reads and writes in host order, `raw` is the stored bits.
/// Trivially copyable and of exactly sizeof(T), so it may be a member of format structs.
template <class T> struct Be {
    T raw;

    Be() = default;
    constexpr Be(T host) : raw(to_be(host)) {}
    constexpr operator T() const { return to_be(raw); }
};

using be16 = Be<uint16_t>;
using be32 = Be<uint32_t>;
using be64 = Be<uint64_t>;
static_assert(sizeof(be16) == 2 && sizeof(be32) == 4 && sizeof(be64) == 8);
static_assert(std::is_trivially_copyable_v<be32>);

/// Reads a big-endian value from unaligned packet bytes.
template <class T> [[nodiscard]] inline T load_be(const void* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return to_be(value);
}

/// Writes a big-endian value to unaligned packet bytes.
template <class T> inline void store_be(void* to, T host) {
    const T value = to_be(host);
    std::memcpy(to, &value, sizeof value);
}

} // namespace net
