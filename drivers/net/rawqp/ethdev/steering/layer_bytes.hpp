// SPDX-License-Identifier: BSD-3-Clause
// The bytes of a header that a rule matches, and its fields, read eight bytes at a time: every
// field of a rule is read several times before the rule is in the device.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/bits.hpp"

#include <array>
#include <cstring>
#include <endian.h>

namespace rawqp {

inline constexpr size_t kLongestHeader = 40;

/// A header as on the wire and, after the longest one, a byte of flags: properties of a packet that
/// can be matched but are not fields of this header. The rest is zero padding, so that a word can
/// be read from any byte in use.
struct LayerBytes : std::array<uint8_t, kLongestHeader + 8> {
    [[nodiscard]] uint8_t& flags() { return (*this)[kLongestHeader]; }
    [[nodiscard]] uint8_t flags() const { return (*this)[kLongestHeader]; }

    [[nodiscard]] uint64_t word(size_t at) const {
        uint64_t word;
        std::memcpy(&word, data() + at, sizeof word);
        return word;
    }
};
static_assert(sizeof(LayerBytes) % sizeof(uint64_t) == 0);

template <class Operation>
[[nodiscard]] LayerBytes by_words(const LayerBytes& a, const LayerBytes& b, Operation operation) {
    LayerBytes result;
    for (size_t at = 0; at < sizeof result; at += sizeof(uint64_t)) {
        const uint64_t word = operation(a.word(at), b.word(at));
        std::memcpy(result.data() + at, &word, sizeof word);
    }
    return result;
}
[[nodiscard]] inline LayerBytes operator&(const LayerBytes& a, const LayerBytes& b) {
    return by_words(a, b, [](uint64_t x, uint64_t y) { return x & y; });
}
[[nodiscard]] inline LayerBytes operator|(const LayerBytes& a, const LayerBytes& b) {
    return by_words(a, b, [](uint64_t x, uint64_t y) { return x | y; });
}
[[nodiscard]] inline LayerBytes operator^(const LayerBytes& a, const LayerBytes& b) {
    return by_words(a, b, [](uint64_t x, uint64_t y) { return x ^ y; });
}
/// The bits of the first that are not in the second.
[[nodiscard]] inline LayerBytes without(const LayerBytes& a, const LayerBytes& b) {
    return by_words(a, b, [](uint64_t x, uint64_t y) { return x & ~y; });
}
[[nodiscard]] inline bool operator==(const LayerBytes& a, const LayerBytes& b) {
    uint64_t difference = 0;
    for (size_t at = 0; at < sizeof a; at += sizeof(uint64_t))
        difference |= a.word(at) ^ b.word(at);
    return difference == 0;
}
[[nodiscard]] inline bool any(const LayerBytes& bytes) {
    uint64_t all = 0;
    for (size_t at = 0; at < sizeof bytes; at += sizeof(uint64_t))
        all |= bytes.word(at);
    return all != 0;
}

/// Most fields lie in a word that starts with the byte of their first bit.
inline constexpr size_t kBitsOfWord = 64 - 7;

[[nodiscard]] inline uint64_t get_bits(const LayerBytes& bytes, size_t bit, size_t count) {
    if (count > kBitsOfWord) return get_bits(std::span<const uint8_t>(bytes), bit, count);
    const uint64_t from_bit = be64toh(bytes.word(bit / 8)) << bit % 8;
    return from_bit >> 1 >> (63 - count); // none of them: zero
}

[[nodiscard]] inline bool any_bit(const LayerBytes& bytes, size_t bit, size_t count) {
    for (; count > kBitsOfWord; bit += 56, count -= 56)
        if (get_bits(bytes, bit, 56) != 0) return true;
    return get_bits(bytes, bit, count) != 0;
}

inline void set_bits(LayerBytes& bytes, size_t bit, size_t count, uint64_t number) {
    if (count > kBitsOfWord || count == 0) {
        set_bits(std::span<uint8_t>(bytes), bit, count, number);
        return;
    }
    const auto placed = [&](uint64_t bits) { return bits << (64 - count) >> bit % 8; };
    uint64_t word = be64toh(bytes.word(bit / 8));
    word = htobe64((word & ~placed(~uint64_t{0})) | placed(number));
    std::memcpy(bytes.data() + bit / 8, &word, sizeof word);
}

/// Sets any number of bits.
inline void set_all_bits(LayerBytes& bytes, size_t bit, size_t count) {
    for (; count > kBitsOfWord; bit += 56, count -= 56)
        set_bits(bytes, bit, 56, ~uint64_t{0});
    set_bits(bytes, bit, count, ~uint64_t{0});
}

} // namespace rawqp
