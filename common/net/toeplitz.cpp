// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/toeplitz.hpp"

namespace net {
namespace {

/// The 32 key bits that start at bit `at` (bit 0 is the first one).
uint32_t key_window(const RssKey& key, size_t at) {
    uint64_t bits = 0;
    for (size_t i = 0; i < 5; i++)
        bits = bits << 8 | key[at / 8 + i];
    return static_cast<uint32_t>(bits >> (8 - at % 8));
}

} // namespace

uint32_t toeplitz_reference(const RssKey& key, std::span<const uint8_t> input) {
    uint32_t hash = 0;
    for (size_t bit = 0; bit < input.size() * 8; bit++)
        if (input[bit / 8] & (0x80u >> (bit % 8))) hash ^= key_window(key, bit);
    return hash;
}

Toeplitz::Toeplitz(const RssKey& key) {
    for (size_t at = 0; at < kRssMaxInput; at++) {
        auto& row = table_[at];
        row[0] = 0;
        for (size_t bit = 0; bit < 8; bit++)
            row[0x80u >> bit] = key_window(key, at * 8 + bit);
        // The hash is linear: a byte's value is the sum of its highest bit's and of the rest's.
        for (size_t value = 3; value < 256; value++) {
            size_t top = 0x80;
            while (!(value & top))
                top >>= 1;
            if (value != top) row[value] = row[top] ^ row[value ^ top];
        }
    }
}

} // namespace net
