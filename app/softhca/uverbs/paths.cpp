// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/paths.hpp"

#include "app/softhca/config.hpp"

#include <atomic>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

// Plain arrays, filled once before main: usable from any interposed call at any time.
constinit char runtime_dir[PATH_MAX] = "";
constinit char root[PATH_MAX] = "";
constinit size_t root_length = 0;
constinit std::atomic<bool> tree_in_use{false};

/// Copies `from` without repeated slashes. Returns false when it does not fit.
bool copy_clean(const char* from, char* to, size_t room) {
    size_t length = 0;
    for (; *from; from++) {
        if (from[0] == '/' && from[1] == '/') continue;
        if (length + 1 >= room) return false;
        to[length++] = *from;
    }
    to[length] = 0;
    return true;
}

/// True when `path` is `folder` or lies below it.
bool within(std::string_view path, std::string_view folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

enum class Claim {
    none,
    whole,  ///< ours, and what the tree lacks is not there: the machine's own RDMA devices are
            ///< hidden
    device, ///< ours if the tree has it
    shared, ///< ours if the tree has it and the machine does not: folders of both
};

Claim claim(std::string_view path) {
    for (std::string_view folder : {"/sys/class/infiniband", "/sys/class/infiniband_mad",
                                    "/sys/class/infiniband_verbs", "/dev/infiniband"})
        if (within(path, folder)) return Claim::whole;
    // A list of all PCI devices shows only these: programs that probe what they find there must not
    // take the machine's own network card.
    constexpr std::string_view kPciDevices = "/sys/bus/pci/devices";
    if (path == kPciDevices || path == "/sys/bus/pci/devices/") return Claim::whole;
    if (within(path, kPciDevices)) return Claim::device;
    constexpr std::string_view kPciRoot = "/sys/devices/pci";
    if (path.starts_with(kPciRoot))
        return path.find('/', kPciRoot.size()) == path.npos ? Claim::shared : Claim::device;
    for (std::string_view folder : {"/sys/bus/pci", "/sys/class/net", "/sys/devices/virtual/net"})
        if (within(path, folder)) return Claim::shared;
    return Claim::none;
}

int uverbs_number(std::string_view path) {
    constexpr std::string_view kPrefix = "/dev/infiniband/uverbs";
    if (!path.starts_with(kPrefix)) return -1;
    const std::string_view digits = path.substr(kPrefix.size());
    if (digits.empty() || digits.size() > 4) return -1;
    int number = 0;
    for (const char c : digits) {
        if (!std::isdigit(static_cast<unsigned char>(c))) return -1;
        number = number * 10 + (c - '0');
    }
    return number;
}

/// The system call itself, for access() is interposed. Does not touch errno.
bool exists(const char* path) {
    const int saved = errno;
    const bool found = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    errno = saved;
    return found;
}

} // namespace

void RedirectedPath::redirect(const char* path) {
    if (root_length == 0) return;
    char* clean = buffer_ + root_length;
    if (!copy_clean(path, clean, sizeof buffer_ - root_length)) return;
    const Claim owner = claim(clean);
    if (owner == Claim::none) return;
    if (owner == Claim::shared && exists(clean)) return;
    std::memcpy(buffer_, root, root_length);
    if (owner != Claim::whole && !exists(buffer_)) return;
    path_ = buffer_;
    uverbs_ = uverbs_number(clean);
    tree_in_use.store(true, std::memory_order_relaxed);
}

bool strip_root(char* path) {
    if (root_length == 0 || std::strncmp(path, root, root_length) != 0) return false;
    const char* rest = path + root_length;
    if (*rest && *rest != '/') return false;
    if (!*rest) rest = "/";
    std::memmove(path, rest, std::strlen(rest) + 1);
    return true;
}

bool tree_is_in_use() { return tree_in_use.load(std::memory_order_relaxed); }

void init_paths() {
    const char* config = std::getenv(kConfigVariable);
    if (!config) return;
    const char* slash = std::strrchr(config, '/');
    const size_t length = slash ? static_cast<size_t>(slash - config) : 0;
    constexpr std::string_view kRoot = "/root"; // tree_root() without an allocation
    if (length == 0 || length + kRoot.size() >= sizeof root) return;
    std::memcpy(runtime_dir, config, length);
    std::memcpy(root, config, length);
    std::memcpy(root + length, kRoot.data(), kRoot.size());
    root_length = length + kRoot.size();
    char folder[PATH_MAX];
    tree_in_use = syscall(SYS_getcwd, folder, sizeof folder) > 0 && strip_root(folder);
}

const char* runtime_folder() { return runtime_dir; }

} // namespace softhca::uverbs
