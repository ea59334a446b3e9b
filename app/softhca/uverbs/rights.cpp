// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/rights.hpp"

#include "app/softhca/uverbs/runtime.hpp"

#include <atomic>
#include <cerrno>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace softhca::uverbs {
namespace {

constexpr uint64_t kPageShift = 12;

/// For all devices of this process: mm->pinned_vm.
constinit std::atomic<uint64_t> pinned{0};

bool enforced() {
    const Runtime* runtime = Runtime::get();
    return runtime && runtime->config().enforce;
}

/// Like capable() in a kernel, which checks for rights in the initial user namespace.
bool is_capable(unsigned capability) {
    constexpr ino_t kFirstNamespace = 0xeffffffd; // PROC_USER_INIT_INO
    struct stat mine {};
    if (stat("/proc/self/ns/user", &mine) == 0 && mine.st_ino != kFirstNamespace) return false;
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3]{};
    if (syscall(SYS_capget, &header, sets) < 0) return false;
    return sets[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}

} // namespace

Errno may_use_raw_packets() { return !enforced() || is_capable(CAP_NET_RAW) ? 0 : EPERM; }

Errno may_steer_by_icm() {
    return !enforced() || (is_capable(CAP_NET_RAW) && is_capable(CAP_SYS_RAWIO)) ? 0 : EPERM;
}

Errno PinnedPages::pin(uint64_t address, uint64_t length) {
    if (!enforced()) return 0;
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    const bool unlimited = is_capable(CAP_IPC_LOCK);
    if (limit.rlim_cur == 0 && !unlimited) return EPERM;
    const uint64_t end = (address + length + (uint64_t{1} << kPageShift) - 1) >> kPageShift;
    const uint64_t pages = end - (address >> kPageShift);
    if (pinned.fetch_add(pages) + pages > limit.rlim_cur >> kPageShift && !unlimited) {
        pinned -= pages;
        return ENOMEM;
    }
    count_ += pages;
    return 0;
}

PinnedPages::PinnedPages(PinnedPages&& other) noexcept : count_(std::exchange(other.count_, 0)) {}
PinnedPages& PinnedPages::operator=(PinnedPages&& other) noexcept {
    std::swap(count_, other.count_);
    return *this;
}
PinnedPages::~PinnedPages() { pinned -= count_; }

} // namespace softhca::uverbs
