// SPDX-License-Identifier: BSD-3-Clause
// Cache lines that are fetched ahead of use, when the device has touched them last.
#pragma once

#include <cstddef>

inline constexpr size_t kLineBytes = 64;

/// Fetches a line that will be stored into. To load it first would take two turns, one for a shared
/// copy and one to make it our own. The address may be any, null as well.
inline void claim_line(const void* line) {
#if defined(__x86_64__)
    // __builtin_prefetch says this only on CPUs that -march promises it of. Older ones skip it.
    asm volatile("prefetchw (%0)" : : "r"(line));
#else
    __builtin_prefetch(line, 1);
#endif
}

/// Those of so many bytes, from a line's first one on: to be read, or stored into.
inline void fetch_lines(const std::byte* first, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kLineBytes)
        __builtin_prefetch(first + at);
}
inline void claim_lines(const std::byte* first, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kLineBytes)
        claim_line(first + at);
}
