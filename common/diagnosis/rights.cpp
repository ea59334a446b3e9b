// SPDX-License-Identifier: BSD-3-Clause
// What this process may do: device node, cgroups, capabilities, locked memory.
#include "common/diagnosis/links.hpp"
#include "common/diagnosis/refusals.hpp"
#include "common/fd.hpp"
#include "common/processes.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <system_error>
#include <unistd.h>

namespace diagnosis::links {
namespace {

constexpr const char* kVerbsClass = "/sys/class/infiniband_verbs";

std::string node_of(const Case& subject) {
    for (const std::string& name : subject.host.list(kVerbsClass))
        if (subject.host.line(fmt::format("{}/{}/ibdev", kVerbsClass, name)) == subject.device)
            return "/dev/infiniband/" + name;
    return {};
}

std::string group_name(gid_t gid) {
    const group* const entry = getgrgid(gid);
    return entry != nullptr ? entry->gr_name : std::to_string(gid);
}

/// "uid 1000, groups users, rdma".
std::string this_process() {
    std::array<gid_t, 64> more;
    const int count = getgroups(more.size(), more.data());
    std::string groups = group_name(getegid());
    for (int i = 0; i < count; ++i)
        if (more[static_cast<size_t>(i)] != getegid())
            groups += ", " + group_name(more[static_cast<size_t>(i)]);
    return fmt::format("this process is uid {}, groups {}", geteuid(), groups);
}

/// A node that may not even be looked at.
Verdict no_sight(const Case& subject) {
    return Verdict::broken(fmt::format("its mode cannot be read; {}", this_process()),
                           fmt::format("no permission for {}", subject.node),
                           "run as root or as a member of its group");
}

Verdict no_permission(const Case& subject, const struct stat& node) {
    const std::string group = group_name(node.st_gid);
    const std::string join =
        node.st_gid != 0 ? fmt::format("usermod -aG {} $USER", group)
                         : fmt::format("chgrp rdma {0} && chmod 0660 {0} && usermod -aG rdma $USER",
                                       subject.node);
    return Verdict::broken(fmt::format("mode {:04o}, owner {}:{}; {}", node.st_mode & 07777,
                                       node.st_uid, group, this_process()),
                           fmt::format("no permission for {}", subject.node),
                           fmt::format("run as root or as a member of its group: {}", join));
}

Verdict no_node(const Case& subject) {
    const std::string number =
        subject.host.line(fmt::format("{}/{}/dev", kVerbsClass, files::base_name(subject.node)));
    return Verdict::broken(
        fmt::format("the kernel has the device under number {}", number.empty() ? "?" : number),
        fmt::format("{} is missing", subject.node),
        subject.host.in_container()
            ? fmt::format("a container must be given the node: podman run --device={} --cap-add="
                          "NET_RAW --ulimit=memlock=-1:-1",
                          subject.node)
            : fmt::format("udevadm trigger --subsystem-match=infiniband_verbs; a container or "
                          "chroot must be given /dev/infiniband"));
}

/// The node was refused although its permission bits allow it.
Verdict not_opened(const Case& subject) {
    const std::string evidence =
        fmt::format("open: {}", std::generic_category().message(subject.open_error));
    if (subject.open_error == EPERM)
        return Verdict::broken(
            evidence + ", though its mode allows it",
            fmt::format("no permission for {}: the device cgroup of this container or service does "
                        "not allow it",
                        subject.node),
            fmt::format("podman run --device={}; systemd: DeviceAllow={} rw", subject.node,
                        subject.node));
    if (subject.open_error == ENXIO || subject.open_error == ENODEV)
        return Verdict::broken(evidence,
                               fmt::format("{} belongs to a device that is gone, or is in another "
                                           "network namespace",
                                           subject.node),
                               "make the node anew (udevadm trigger), or give the container the "
                               "present one; rdma system show tells of namespaces");
    return Verdict::broken(evidence, fmt::format("{} cannot be opened", subject.node),
                           "dmesg tells more");
}

/// A line "mlx5_0 hca_handle=2 hca_object=max" of rdma.max or rdma.current: the value of one of
/// them.
std::string limit_of(const std::string& text, const std::string& device, std::string_view what) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        if (!(words >> word) || word != device) continue;
        while (words >> word)
            if (word.starts_with(what) && word.size() > what.size() && word[what.size()] == '=')
                return word.substr(what.size() + 1);
    }
    return {};
}

/// Folders of this process's rdma cgroup and those above it, from the innermost.
std::vector<std::string> rdma_cgroups(const Host& host) {
    std::istringstream lines(host.text("/proc/self/cgroup"));
    std::vector<std::string> folders;
    for (std::string line; std::getline(lines, line);) {
        const bool unified = line.starts_with("0::");
        const size_t old = line.find(":rdma:");
        if (!unified && old == line.npos) continue;
        const std::string base = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/rdma";
        std::string path = line.substr(unified ? 3 : old + 6);
        for (; path.size() > 1; path.erase(path.rfind('/')))
            folders.push_back(base + path);
    }
    return folders;
}

/// Whether a file gives the capability to those who run it, so that they need not raise it
/// themselves: struct vfs_cap_data of the kernel.
bool file_gives(const std::string& path, unsigned capability) {
    vfs_cap_data data{};
    const ssize_t size = getxattr(path.c_str(), "security.capability", &data, sizeof data);
    const auto needed = static_cast<ssize_t>(offsetof(vfs_cap_data, data[1]));
    return size >= needed && (data.magic_etc & VFS_CAP_FLAGS_EFFECTIVE) != 0 &&
           (data.data[0].permitted >> capability & 1) != 0;
}

} // namespace

Verdict uverbs_node(Case& subject) {
    if (subject.node.empty()) subject.node = node_of(subject);
    if (subject.node.empty())
        return Verdict::broken(fmt::format("{} has no entry for {}", kVerbsClass, subject.device),
                               fmt::format("ib_uverbs does not show {} here", subject.device),
                               "rdma system show: with \"netns exclusive\" a device is seen in one "
                               "network namespace only");
    const std::string path = subject.host.at(subject.node);
    struct stat found {};
    if (stat(path.c_str(), &found) != 0) {
        // A refusal proves that there is a node, even where this process may not look.
        if (errno == EACCES || subject.open_error == EACCES || subject.open_error == EPERM)
            return no_sight(subject);
        return no_node(subject);
    }
    if (subject.open_error == 0 && access(path.c_str(), R_OK | W_OK) != 0)
        subject.open_error = errno;
    if (subject.open_error == EACCES) return no_permission(subject, found);
    if (subject.open_error == 0) {
        const Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
        if (!fd) subject.open_error = errno;
    }
    if (subject.open_error != 0) return not_opened(subject);
    return Verdict::ok(fmt::format("{}, mode {:04o}, group {}", subject.node, found.st_mode & 07777,
                                   group_name(found.st_gid)));
}

Verdict rdma_cgroup(Case& subject) {
    for (const std::string& folder : rdma_cgroups(subject.host)) {
        const std::string most = subject.host.text(folder + "/rdma.max");
        const std::string used = subject.host.text(folder + "/rdma.current");
        for (const char* what : {"hca_handle", "hca_object"}) {
            const std::string limit = limit_of(most, subject.device, what);
            if (limit.empty() || limit == "max") continue;
            const std::string now = limit_of(used, subject.device, what);
            const auto number = [](const std::string& text) {
                return std::strtoull(text.c_str(), nullptr, 10);
            };
            if (number(now) < number(limit)) continue;
            return Verdict::broken(
                fmt::format("{}: {} of {} {} in use", folder, now.empty() ? "0" : now, limit, what),
                fmt::format("the rdma cgroup allows this process no more of {} on {}", what,
                            subject.device),
                fmt::format("echo '{} {}=max' > {}/rdma.max", subject.device, what, folder));
        }
    }
    return Verdict::ok("no limit is reached");
}

Verdict in_use(Case& subject) {
    std::string others;
    for (const processes::Process& each :
         processes::with_open(subject.node, subject.host.at("/proc")))
        if (each.pid != std::to_string(getpid()))
            others += fmt::format("{}{}", others.empty() ? "" : ", ", each.text());
    if (others.empty())
        return Verdict::ok(fmt::format("no process in sight has {} open", subject.node));
    return Verdict::warning(
        fmt::format("{} is open in {}", subject.node, others),
        "another process has queues and rules on this device: a rule for the same packets fails "
        "with \"File exists\", and each takes packets that the other expects",
        "end that process, or give it another device; \"File exists\" within one process: a port "
        "that was closed is still probed, detach it (rte_dev_remove; testpmd: device detach NAME)");
}

Verdict capability(Case& subject) {
    const bool mine = subject.host.capable(CAP_NET_RAW);
    const bool of_program = !subject.program.empty() && file_gives(subject.program, CAP_NET_RAW);
    if (!mine && !of_program)
        return Verdict::broken(
            fmt::format("effective capabilities of this process: {}{}",
                        subject.host.field("/proc/thread-self/status", "CapEff"),
                        subject.program.empty() ? "" : "; the program's file does not give it"),
            "CAP_NET_RAW is needed for RAW_PACKET queue pairs and flow rules",
            net_raw_remedy(subject.program));
    const std::string evidence =
        mine ? "this process has CAP_NET_RAW" : subject.program + " has cap_net_raw";
    if (subject.host.in_user_namespace())
        return Verdict::warning(evidence + ", in a user namespace of its own",
                                "kernels may ask for the capability in the first user namespace",
                                "if raw-packet is broken, start the program outside of the "
                                "namespace (rootful podman, no userns remapping)");
    return Verdict::ok(evidence);
}

Verdict memlock(Case& subject) {
    // What a program with one queue of each kind and DPDK's usual 8192 mbufs needs.
    constexpr uint64_t kNeeded = uint64_t{32} << 20;
    const std::optional<uint64_t> limit = subject.host.locked_memory_limit();
    if (!limit) return Verdict::ok("unlimited");
    const std::string evidence = fmt::format("RLIMIT_MEMLOCK is {} KiB", *limit >> 10);
    if (subject.host.capable(CAP_IPC_LOCK))
        return Verdict::ok(evidence + ", and CAP_IPC_LOCK lifts it");
    if (*limit >= kNeeded) return Verdict::ok(evidence);
    return Verdict::broken(
        fmt::format("{}; one queue with 8192 mbufs takes some {} KiB", evidence, kNeeded >> 10),
        "RLIMIT_MEMLOCK is too low: packet memory and rings are pinned for the device",
        memlock_remedy());
}

} // namespace diagnosis::links
