// SPDX-License-Identifier: BSD-3-Clause
// For functions of the C library that libsofthca.so stands in for.
#pragma once

#include <atomic>
#include <dlfcn.h>

#define SOFTHCA_EXPORT __attribute__((visibility("default")))

namespace softhca::uverbs {

/// The function of that name in the libraries behind this one.
template <class Function> class Original {
  public:
    constexpr explicit Original(const char* name) : name_(name) {}

    /// The library's constructor looks all of them up, for dlsym(3) may not be called in signal
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

} // namespace softhca::uverbs
