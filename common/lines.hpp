// SPDX-License-Identifier: BSD-3-Clause
// Prefetching of cache lines that the device touched last.
#pragma once

#include <cstddef>

inline constexpr size_t kLineBytes = 64;

/// Prefetches a line for writing. Loading it first would take two round trips, one for a shared
/// copy and one for ownership. Any address will do, including null.
inline void claim_line(const void* line) {
#if defined(__x86_64__)
    // __builtin_prefetch emits this only if -march promises that CPUs have it. Older ones skip it.
    asm volatile("prefetchw (%0)" : : "r"(line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/// Prefetches the lines of `bytes` bytes, from a line's first byte on, for reading or writing.
inline void fetch_lines(const std::byte* first, size_t bytes) {
    for (const std::byte* const end = first + bytes; first < end; first += kLineBytes)
        __builtin_prefetch(first);
}
inline void claim_lines(const std::byte* first, size_t bytes) {
    for (const std::byte* const end = first + bytes; first < end; first += kLineBytes)
        claim_line(first);
}
