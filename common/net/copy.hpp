// SPDX-License-Identifier: BSD-3-Clause
// Copies of packets, most of which are short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace net {

/// Copies `bytes` bytes between places that do not overlap. What is as long as a short packet goes
/// through registers, its beginning and its end, which may meet: a call of memcpy() takes longer to
/// find out how to do it than to do it.
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
