// SPDX-License-Identifier: BSD-3-Clause
// The machine as checks see it: /sys, /proc, /dev and the like, below a root that tests choose.
#pragma once

#include "common/files.hpp"
#include "common/netdev/netdev.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace diagnosis {

class Host {
  public:
    /// `sys` is where /sys is; empty: below the root.
    explicit Host(std::string root = "", std::string sys = "")
        : root_(std::move(root)), sys_(sys.empty() ? root_ + "/sys" : std::move(sys)) {}

    /// Where an absolute path name really is.
    [[nodiscard]] std::string at(std::string_view path) const {
        if (path.starts_with("/sys/")) return sys_ + std::string(path.substr(4));
        return root_ + std::string(path);
    }
    [[nodiscard]] netdev::Sysfs sysfs() const { return netdev::Sysfs(sys_); }

    [[nodiscard]] bool exists(std::string_view path) const { return files::exists(at(path)); }
    [[nodiscard]] std::string text(std::string_view path) const {
        return files::contents(at(path)).value_or("");
    }
    [[nodiscard]] std::string line(std::string_view path) const {
        return files::first_line(at(path));
    }
    [[nodiscard]] std::vector<std::string> list(std::string_view path) const {
        return files::entries(at(path));
    }
    /// Last part of the name that a link points to; empty if it is not a link.
    [[nodiscard]] std::string link_name(std::string_view path) const {
        return files::base_name(files::link_target(at(path)));
    }
    /// Value after "Key:" in a file of such lines, as /proc/PID/status is; empty when it has none.
    [[nodiscard]] std::string field(std::string_view path, std::string_view key) const;

    /// Whether the calling thread has a capability (CAP_* of <linux/capability.h>).
    [[nodiscard]] bool capable(unsigned capability) const;
    /// RLIMIT_MEMLOCK of this process in bytes, the soft limit; nothing: unlimited.
    [[nodiscard]] std::optional<uint64_t> locked_memory_limit() const;
    /// Bytes that this process has pinned for devices, which count against that limit.
    [[nodiscard]] uint64_t pinned_memory() const;
    /// Whether this process is in its own user namespace, not the initial one.
    [[nodiscard]] bool in_user_namespace() const;
    [[nodiscard]] bool in_container() const;

  private:
    std::string root_, sys_;
};

} // namespace diagnosis
