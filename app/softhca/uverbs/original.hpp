// SPDX-License-Identifier: BSD-3-Clause
// Common to the interposed functions: access to the original functions.
#pragma once

#include <atomic>
#include <cerrno>
#include <dlfcn.h>

#define SOFTHCA_EXPORT __attribute__((visibility("default")))

namespace softhca::uverbs {

/// The function of that name in the libraries after this one.
template <class Function> class Original {
  public:
    constexpr explicit Original(const char* name) : name_(name) {}

    /// The library's constructors resolve all of them, as dlsym(3) may not be called in signal
    /// handlers; this covers calls before that.
    Function* get() {
        Function* known = function_.load(std::memory_order_relaxed);
        if (known) return known;
        known = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
        function_.store(known, std::memory_order_relaxed);
        return known;
    }
    template <class... Args> auto operator()(Args... args) { return get()(args...); }

  private:
    const char* name_;
    std::atomic<Function*> function_{nullptr};
};

inline int fail_with(int error) {
    errno = error;
    return -1;
}

} // namespace softhca::uverbs
