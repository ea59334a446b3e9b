// SPDX-License-Identifier: BSD-3-Clause
#include "common/verbs/handles.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>

namespace verbs {
namespace {

void print_failure(const char* kind, int error) {
    std::fprintf(stderr, "verbs: cannot destroy a %s: %s\n", kind, strerror(error));
}
std::atomic<DestroyFailureHandler> handler{print_failure};

} // namespace

void set_destroy_failure_handler(DestroyFailureHandler function) {
    handler = function != nullptr ? function : print_failure;
}

void report_destroy_failure(const char* kind, int error) {
    // Most verbs return the errno value, some older ones -1 with errno set.
    handler.load()(kind, error > 0 ? error : errno);
}

} // namespace verbs
