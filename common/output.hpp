// SPDX-License-Identifier: BSD-3-Clause
// How programs end: what they could not write to stdout, and what they could not handle, is said on
// stderr and shows in their status.
#pragma once

#include <cerrno>
#include <cstdio>
#include <exception>

namespace output {

inline constexpr int kLost = 1; ///< status of a program whose output was lost

/// Writes what stdout still holds. False: that, or something before it, could not be written, which
/// is said on stderr, once in a program. For the reason, call it right after writing.
[[nodiscard]] bool flush(const char* program);

/// For main(): the status that `work` returns; `failed` after an exception, which is said on
/// stderr; kLost if all went well except that output was lost.
template <class Work> [[nodiscard]] int end_of(const char* program, int failed, Work&& work) {
    int status = failed;
    try {
        status = work();
    } catch (const std::exception& error) { // out of memory, say
        std::fprintf(stderr, "%s: %s\n", program, error.what());
    }
    errno = 0;
    return flush(program) || status != 0 ? status : kLost;
}

} // namespace output
