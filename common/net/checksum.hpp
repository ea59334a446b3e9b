// SPDX-License-Identifier: BSD-3-Clause
// The Internet checksum (RFC 1071) over scattered bytes, and the Ethernet frame check sequence.
#pragma once

#include "common/net/endian.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace net {

/// Accumulates a one's complement sum of big-endian 16-bit words. Pieces may have odd lengths: the
/// next piece goes on where the last one stopped.
class ChecksumSum {
  public:
    void add(const void* data, size_t length) {
        const uint64_t sum = length <= kShort ? sum_short(data, length) : sum_long(data, length);
        // A piece at an odd position has its bytes in the other halves of the words.
        sum_ += odd_ ? byteswap(fold_to_16(sum)) : fold_to_32(sum);
        odd_ ^= (length & 1) != 0;
    }
    void add(std::span<const std::byte> data) { add(data.data(), data.size()); }
    /// The sum of what comes next. Only at an even position.
    void add(const ChecksumSum& next) {
        sum_ += fold_to_32(next.sum_);
        odd_ = next.odd_;
    }
    /// A 16-bit word in host order. Only at an even position.
    void add_word(uint16_t word) { sum_ += to_be(word); }

    /// The sum, folded to 16 bits, host order. 0xffff when it covers a right checksum field.
    [[nodiscard]] uint16_t fold() const { return to_be(fold_to_16(sum_)); }
    /// The complement: what belongs into a checksum field (host order).
    [[nodiscard]] uint16_t checksum() const { return static_cast<uint16_t>(~fold()); }

  private:
    static constexpr size_t kShort = 128;

    static constexpr uint64_t fold_to_32(uint64_t sum) {
        sum = (sum & 0xffffffff) + (sum >> 32);
        return (sum & 0xffffffff) + (sum >> 32);
    }
    static constexpr uint16_t fold_to_16(uint64_t sum) {
        sum = fold_to_32(sum);
        sum = (sum & 0xffff) + (sum >> 16);
        return static_cast<uint16_t>((sum & 0xffff) + (sum >> 16));
    }
    // Both sum wide words as they stand in memory: 2^16 = 1 modulo 0xffff, so words of any width
    // give the same one's complement sum.
    static uint64_t load_word(const std::byte* from) {
        uint64_t word;
        std::memcpy(&word, from, sizeof word);
        return word;
    }
    static uint64_t sum_short(const void* data, size_t length);
    static uint64_t sum_long(const void* data, size_t length);

    uint64_t sum_ = 0; // of words as they stand in memory; swapped once at the end
    bool odd_ = false;
};

inline uint64_t ChecksumSum::sum_short(const void* data, size_t length) {
    const auto* bytes = static_cast<const std::byte*>(data);
    const bool has_words = length >= sizeof(uint64_t);
    uint64_t sum = 0;
    const auto add = [&sum](uint64_t word) {
        sum += word;
        sum += sum < word; // end-around carry
    };
    for (; length >= sizeof(uint64_t); length -= sizeof(uint64_t), bytes += sizeof(uint64_t))
        add(load_word(bytes));
    if (length == 0) return sum;
    if (has_words) { // the last word, without those of its bytes that are summed already
        add(load_word(bytes + length - sizeof(uint64_t)) >> (8 * (sizeof(uint64_t) - length)));
        return sum;
    }
    uint64_t rest = 0; // zeros after the last byte do not change the sum
    std::memcpy(&rest, bytes, length);
    add(rest);
    return sum;
}

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
