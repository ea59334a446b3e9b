// SPDX-License-Identifier: BSD-3-Clause
// The Internet checksum (RFC 1071) over scattered bytes, and the Ethernet frame check sequence.
#pragma once

#include "common/net/endian.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace net {

// Sums below are of words as they are in memory, of any width: as 2^16 = 1 modulo 0xffff, all
// widths give the same one's complement sum. They are added with end-around carry and swapped once,
// when they are folded.

[[nodiscard]] inline uint64_t add_sums(uint64_t one, uint64_t other) {
    const uint64_t sum = one + other;
    return sum + (sum < one);
}

namespace detail {

[[nodiscard]] inline uint64_t load_word(const std::byte* from) {
    uint64_t word;
    std::memcpy(&word, from, sizeof word);
    return word;
}
[[nodiscard]] uint64_t sum_long(const std::byte* bytes, size_t length);

} // namespace detail

/// The sum of these bytes, which begin at an even position.
[[nodiscard]] inline uint64_t sum_bytes(const std::byte* bytes, size_t length) {
    constexpr size_t kWord = sizeof(uint64_t), kShort = 128;
    if (length > kShort) return detail::sum_long(bytes, length);
    const bool has_words = length >= kWord;
    uint64_t sum = 0;
    for (; length >= kWord; length -= kWord, bytes += kWord)
        sum = add_sums(sum, detail::load_word(bytes));
    if (length == 0) return sum;
    if (has_words) // the last word, without those of its bytes that were already summed
        return add_sums(sum, detail::load_word(bytes + length - kWord) >> (8 * (kWord - length)));
    uint64_t rest = 0; // zeros after the last byte do not change the sum
    std::memcpy(&rest, bytes, length);
    return rest;
}

/// Folds to 16 bits, in network byte order. A sum added to itself with its halves exchanged has in
/// its upper half the total of both halves, including the lower half's carry.
[[nodiscard]] constexpr uint16_t fold_sum(uint64_t sum) {
    const auto half = static_cast<uint32_t>((sum + std::rotl(sum, 32)) >> 32);
    return static_cast<uint16_t>((half + std::rotl(half, 16)) >> 16);
}

/// Accumulates a one's complement sum of big-endian 16-bit words. Pieces may have odd lengths: the
/// next piece goes on where the last one stopped.
class ChecksumSum {
  public:
    void add(const void* data, size_t length) {
        const uint64_t sum = sum_bytes(static_cast<const std::byte*>(data), length);
        // A piece at an odd position has its bytes in the other halves of the words.
        sum_ = add_sums(sum_, odd_ ? byteswap(fold_sum(sum)) : sum);
        odd_ ^= (length & 1) != 0;
    }
    void add(std::span<const std::byte> data) { add(data.data(), data.size()); }
    /// The sum of what comes next. Only at an even position.
    void add(const ChecksumSum& next) {
        sum_ = add_sums(sum_, next.sum_);
        odd_ = next.odd_;
    }
    /// A 16-bit word in host order. Only at an even position.
    void add_word(uint16_t word) { sum_ = add_sums(sum_, to_be(word)); }

    /// The sum, folded to 16 bits, host order. 0xffff when it covers a correct checksum field.
    [[nodiscard]] uint16_t fold() const { return to_be(fold_sum(sum_)); }
    /// The complement, which goes into a checksum field (host order).
    [[nodiscard]] uint16_t checksum() const { return static_cast<uint16_t>(~fold()); }
    /// The same where zero would mean no checksum, as in UDP: gives the other zero.
    [[nodiscard]] uint16_t checksum_not_zero() const {
        const uint16_t sum = checksum();
        return sum != 0 ? sum : uint16_t{0xffff};
    }

  private:
    uint64_t sum_ = 0;
    bool odd_ = false;
};

/// The checksum of one contiguous block whose checksum field is zero (host order).
[[nodiscard]] inline uint16_t checksum(const void* data, size_t length) {
    ChecksumSum sum;
    sum.add(data, length);
    return sum.checksum();
}

/// CRC-32 of Ethernet (IEEE 802.3). Chain pieces by passing the previous result; start with 0. The
/// FCS is sent least significant byte first.
[[nodiscard]] uint32_t crc32(uint32_t crc, const void* data, size_t length);

} // namespace net
