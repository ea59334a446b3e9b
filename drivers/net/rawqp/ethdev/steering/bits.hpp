// SPDX-License-Identifier: BSD-3-Clause
// Bits of headers and device formats, numbered from the most significant bit of the first byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace rawqp {

/// The number in `count` bits, 64 at most.
[[nodiscard]] inline uint64_t get_bits(std::span<const uint8_t> bytes, size_t bit, size_t count) {
    uint64_t number = 0;
    for (size_t i = bit; i < bit + count; ++i)
        number = number << 1 | (bytes[i / 8] >> (7 - i % 8) & 1);
    return number;
}

inline void set_bits(std::span<uint8_t> bytes, size_t bit, size_t count, uint64_t number) {
    for (size_t i = bit + count; i-- > bit; number >>= 1) {
        const auto one = static_cast<uint8_t>(0x80 >> i % 8);
        bytes[i / 8] = static_cast<uint8_t>((bytes[i / 8] & ~one) | ((number & 1) != 0 ? one : 0));
    }
}

[[nodiscard]] inline bool any_bit(std::span<const uint8_t> bytes, size_t bit, size_t count) {
    for (; count != 0 && (bit % 8 != 0 || count < 8); ++bit, --count)
        if ((bytes[bit / 8] >> (7 - bit % 8) & 1) != 0) return true;
    for (; count >= 8; bit += 8, count -= 8)
        if (bytes[bit / 8] != 0) return true;
    return count != 0 && get_bits(bytes, bit, count) != 0;
}

/// Adds the set bits among `count` of them to those at another place.
inline void or_bits(std::span<const uint8_t> from, size_t bit, size_t count, std::span<uint8_t> to,
                    size_t to_bit) {
    if (bit % 8 == 0 && to_bit % 8 == 0 && count % 8 == 0) {
        for (size_t i = 0; i < count / 8; ++i)
            to[to_bit / 8 + i] |= from[bit / 8 + i];
        return;
    }
    for (size_t i = 0; i < count; ++i)
        if ((from[(bit + i) / 8] >> (7 - (bit + i) % 8) & 1) != 0)
            to[(to_bit + i) / 8] |= static_cast<uint8_t>(0x80 >> (to_bit + i) % 8);
}

} // namespace rawqp
