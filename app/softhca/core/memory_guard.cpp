// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/memory_guard.hpp"

#include <csetjmp>

namespace softhca::core {
namespace {

struct Guard {
    const GuardedMemory& memory;
    Guard* outer;
    const void* volatile missing = nullptr;
    sigjmp_buf back;
};
// In static TLS: looking it up in a signal handler allocates nothing.
[[gnu::tls_model("initial-exec")]] constinit thread_local Guard* innermost = nullptr;

} // namespace

const void* run_guarded(const GuardedMemory& memory, void (*work)(void*), void* argument) {
    Guard guard{.memory = memory, .outer = innermost, .missing = nullptr, .back = {}};
    // The signal mask is not kept, which would be a system call: the handler changes none
    // (SA_NODEFER).
    if (sigsetjmp(guard.back, 0) == 0) {
        innermost = &guard;
        work(argument);
    }
    innermost = guard.outer;
    return guard.missing;
}

void leave_guarded(const void* address) {
    for (const Guard* guard = innermost; guard; guard = guard->outer) {
        if (!guard->memory.covers(address)) continue;
        innermost->missing = address;
        siglongjmp(innermost->back, 1);
    }
}

} // namespace softhca::core
