// SPDX-License-Identifier: BSD-3-Clause
// Bits of headers and device formats, numbered from the most significant bit of the first byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rawqp {

/// How many of `count` bits from `bit` on lie in the byte that holds the first of them.
[[nodiscard]] constexpr size_t bits_of_byte(size_t bit, size_t count) {
    return std::min(8 - bit % 8, count);
}

/// Whether the bits are whole bytes, as most fields are.
[[nodiscard]] constexpr bool whole_bytes(size_t bit, size_t count) {
    return (bit | count) % 8 == 0;
}

/// The number in `count` bits, 64 at most.
[[nodiscard]] inline uint64_t get_bits(std::span<const uint8_t> bytes, size_t bit, size_t count) {
    uint64_t number = 0;
    if (whole_bytes(bit, count)) {
        for (const uint8_t byte : bytes.subspan(bit / 8, count / 8))
            number = number << 8 | byte;
        return number;
    }
    for (size_t n; count != 0; bit += n, count -= n) {
        n = bits_of_byte(bit, count);
        number = number << n | (bytes[bit / 8] >> (8 - bit % 8 - n) & ((1u << n) - 1));
    }
    return number;
}

inline void set_bits(std::span<uint8_t> bytes, size_t bit, size_t count, uint64_t number) {
    for (size_t end = bit + count; end > bit;) { // the last byte first
        const size_t start = std::max(bit, (end - 1) / 8 * 8), n = end - start;
        const size_t shift = 8 - start % 8 - n;
        uint8_t& byte = bytes[start / 8];
        const auto mask = static_cast<uint8_t>(((1u << n) - 1) << shift);
        byte = static_cast<uint8_t>((byte & ~mask) | (number << shift & mask));
        number >>= n;
        end = start;
    }
}

[[nodiscard]] inline bool any_bit(std::span<const uint8_t> bytes, size_t bit, size_t count) {
    uint64_t any = 0;
    if (whole_bytes(bit, count)) {
        for (const uint8_t byte : bytes.subspan(bit / 8, count / 8))
            any |= byte;
        return any != 0;
    }
    for (size_t n; count != 0; bit += n, count -= n) {
        n = bits_of_byte(bit, count);
        any |= bytes[bit / 8] >> (8 - bit % 8 - n) & ((1u << n) - 1);
    }
    return any != 0;
}

/// ORs `count` bits into those at another place.
inline void or_bits(std::span<const uint8_t> from, size_t bit, size_t count, std::span<uint8_t> to,
                    size_t to_bit) {
    if (whole_bytes(bit | to_bit, count)) {
        for (size_t i = 0; i < count / 8; ++i)
            to[to_bit / 8 + i] |= from[bit / 8 + i];
        return;
    }
    for (size_t n; count != 0; bit += n, to_bit += n, count -= n) {
        n = bits_of_byte(to_bit, bits_of_byte(bit, count));
        to[to_bit / 8] |= static_cast<uint8_t>(get_bits(from, bit, n) << (8 - to_bit % 8 - n));
    }
}

} // namespace rawqp
