// SPDX-License-Identifier: BSD-3-Clause
// Records every instruction of this thread between two moments, with the registers before it, by
// the CPU's single-step trap; so this also works for drivers without source. From this and what
// trace.hpp records, tests/perf/touched.py determines which cache lines a burst touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace perf {

class Steps {
  public:
    /// Throws std::runtime_error where it is not supported (x86-64 only).
    Steps();
    ~Steps();
    Steps(const Steps&) = delete;
    Steps& operator=(const Steps&) = delete;

    /// Discards earlier steps.
    void begin();
    void end();
    /// Writes 17 words of 64 bits for each step: rip, then rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi,
    /// r8 … r15. Throws std::runtime_error.
    void write(const std::string& file) const;
};

} // namespace perf
