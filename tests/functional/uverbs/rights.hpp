// SPDX-License-Identifier: BSD-3-Clause
// The capabilities of the calling thread.
#pragma once

#include <array>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace test {

using Sets = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

inline Sets capabilities() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    Sets sets{};
    EXPECT_EQ(syscall(SYS_capget, &header, sets.data()), 0);
    return sets;
}

inline bool has(unsigned capability) {
    return capabilities()[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

/// Removes a capability from this thread during its lifetime.
class Without {
  public:
    explicit Without(unsigned capability) : before_(capabilities()) {
        Sets sets = before_;
        sets[CAP_TO_INDEX(capability)].effective &= ~CAP_TO_MASK(capability);
        set(sets);
    }
    ~Without() { set(before_); }
    Without(const Without&) = delete;
    Without& operator=(const Without&) = delete;

  private:
    static void set(const Sets& sets) {
        __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
        EXPECT_EQ(syscall(SYS_capset, &header, sets.data()), 0);
    }
    Sets before_;
};

} // namespace test
