// SPDX-License-Identifier: BSD-3-Clause
// Every instruction of this thread between two moments, with the registers that it found: by the
// CPU's single-step trap, so also of drivers whose source is not here. tests/perf/touched.py works
// out from that, and from what memory.hpp says, which cache lines a burst touches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace perf {

class Steps {
  public:
    /// Throws std::runtime_error where it cannot be had (x86-64 only).
    Steps();
    ~Steps();
    Steps(const Steps&) = delete;
    Steps& operator=(const Steps&) = delete;

    /// Forgets what was before.
    void begin();
    void end();
    /// Writes 17 words of 64 bits for each step: rip, then rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi,
    /// r8 … r15. Throws std::runtime_error.
    void write(const std::string& file) const;
};

} // namespace perf
