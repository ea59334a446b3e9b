// SPDX-License-Identifier: BSD-3-Clause
// Copies of packets, most of which are short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace net {

/// Copies `bytes` bytes between places that do not overlap. Lengths of short packets go through
/// registers, the beginning and the end, which may overlap: memcpy() takes longer to decide how to
/// copy than to copy.
inline void copy_packet(std::byte* to, const std::byte* from, uint32_t bytes) {
    constexpr uint32_t kHalf = 32;
    struct Half {
        uint64_t words[kHalf / sizeof(uint64_t)];
    };
    if (bytes < kHalf || bytes > 2 * kHalf) {
        std::memcpy(to, from, bytes);
        return;
    }
    Half first, last;
    std::memcpy(&first, from, kHalf);
    std::memcpy(&last, from + bytes - kHalf, kHalf);
    std::memcpy(to, &first, kHalf);
    std::memcpy(to + bytes - kHalf, &last, kHalf);
}

} // namespace net
