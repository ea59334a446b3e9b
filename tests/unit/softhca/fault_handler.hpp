// SPDX-License-Identifier: BSD-3-Clause
// Memory that disappears, and a handler for the faults, like a front's.
#pragma once

#include "app/softhca/core/memory_guard.hpp"

#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <gtest/gtest.h>
#include <sys/mman.h>

namespace testbed {

inline constexpr size_t kPage = 4096;

inline sigjmp_buf nobody;
inline bool was_nobodys = false;

inline void on_fault(int, siginfo_t* info, void*) {
    softhca::core::leave_guarded(info->si_addr);
    was_nobodys = true;
    siglongjmp(nobody, 1);
}

/// While it exists, handles faults as a front does.
class Handler {
  public:
    Handler() {
        struct sigaction action {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;
        sigaction(SIGSEGV, &action, &before_);
    }
    ~Handler() { sigaction(SIGSEGV, &before_, nullptr); }
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;

  private:
    struct sigaction before_ {};
};

/// While it exists, these whole pages are inaccessible.
class Hole {
  public:
    Hole(std::byte* start, size_t bytes) : start_(start), bytes_((bytes + kPage - 1) & -kPage) {
        EXPECT_EQ(mprotect(start_, bytes_, PROT_NONE), 0);
    }
    ~Hole() { EXPECT_EQ(mprotect(start_, bytes_, PROT_READ | PROT_WRITE), 0); }
    Hole(const Hole&) = delete;
    Hole& operator=(const Hole&) = delete;

  private:
    std::byte* start_;
    size_t bytes_;
};

} // namespace testbed
