// SPDX-License-Identifier: BSD-3-Clause
#include "common/verbs/handles.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace verbs {
namespace {

void print_failure(const char* kind, int error) {
    std::fprintf(stderr, "verbs: cannot destroy a %s: %s\n", kind, strerror(error));
}
std::atomic<DestroyFailureHandler> handler{print_failure};

using Attempts = std::vector<std::function<int()>>;
std::mutex left_mutex;
std::unordered_map<ibv_context*, Attempts>& left() {
    static std::unordered_map<ibv_context*, Attempts> by_context;
    return by_context;
}

} // namespace

DestroyFailureHandler set_destroy_failure_handler(DestroyFailureHandler function) {
    return handler.exchange(function != nullptr ? function : print_failure);
}

void report_destroy_failure(const char* kind, int error) {
    // Most verbs return the errno value, some older ones -1 with errno set.
    handler.load()(kind, error > 0 ? error : errno);
}

void leave_to_close(ibv_context* context, std::function<int()> destroy) {
    const std::lock_guard lock(left_mutex);
    left()[context].push_back(std::move(destroy));
}

void destroy_left(ibv_context* context) {
    Attempts attempts;
    {
        const std::lock_guard lock(left_mutex);
        if (const auto found = left().extract(context)) attempts = std::move(found.mapped());
    }
    for (const auto& destroy : attempts)
        destroy(); // the failure was already reported
}

} // namespace verbs
