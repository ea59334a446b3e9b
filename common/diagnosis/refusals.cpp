// SPDX-License-Identifier: BSD-3-Clause
#include "common/diagnosis/refusals.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <linux/capability.h>

namespace diagnosis {

std::string net_raw_remedy(const std::string& program) {
    return fmt::format("run as root, or: setcap cap_net_raw+ep {} (the program then ignores "
                       "LD_LIBRARY_PATH); in a container: --cap-add=NET_RAW",
                       program.empty() ? "PROGRAM" : program);
}

std::string memlock_remedy() {
    return "ulimit -l unlimited (as root), or in /etc/security/limits.d: \"* - memlock "
           "unlimited\"; "
           "systemd: LimitMEMLOCK=infinity; in a container: --ulimit=memlock=-1:-1";
}

Verdict refused(const std::string& call, int error, verbs::Attempt attempt,
                const std::string& cause) {
    const verbs::Reason reason = verbs::reason_of(error, attempt);
    std::string remedy = reason.remedy;
    if (error == ENOMEM && attempt != verbs::Attempt::steer) remedy = memlock_remedy();
    if (error == EPERM && attempt != verbs::Attempt::register_memory) remedy = net_raw_remedy();
    if (remedy.empty()) remedy = "dmesg and devlink health tell what the device says";
    return Verdict::broken(
        fmt::format("{}: {}", call, verbs::errno_text(error)),
        *reason.cause != '\0' ? fmt::format("{}: {}", cause, reason.cause) : cause, remedy);
}

Verdict no_such_port(const std::string& device, unsigned port, unsigned ports) {
    return Verdict::broken(ports == 1 ? "it has port 1 only"
                                      : fmt::format("it has {} ports", ports),
                           fmt::format("RDMA device {} has no port {}", device, port),
                           "the device argument port counts from 1");
}

Verdict not_ethernet(const std::string& device, unsigned port) {
    return Verdict::broken(
        "its link layer is InfiniBand",
        fmt::format("{} port {} is an InfiniBand port: raw packets need Ethernet", device, port),
        fmt::format("a ConnectX VPI is switched by mlxconfig -d PCI set LINK_TYPE_P{}=2", port));
}

Verdict no_work_queues(const std::string& device) {
    return Verdict::broken("max_wq_type_rq is 0",
                           fmt::format("{} has no receive WQs (ibv_create_wq), which the driver "
                                       "needs",
                                       device),
                           "use a NIC of the mlx5 family (ConnectX-4 or later)");
}

Verdict not_registered(const Host& host, uint64_t bytes, int error, const std::string& cause) {
    Verdict said = refused("ibv_reg_mr", error, verbs::Attempt::register_memory, cause);
    const std::optional<uint64_t> limit = host.locked_memory_limit();
    const bool limited = limit && !host.capable(CAP_IPC_LOCK);
    // EPERM: the limit is 0. ENOMEM may also mean what it says.
    if (error != ENOMEM && !(error == EPERM && limited && *limit == 0)) return said;
    if (!limited)
        return Verdict::broken(said.evidence + "; RLIMIT_MEMLOCK does not limit this process",
                               cause + ": too little memory, or a part of it is not mapped",
                               "free memory of the host; dmesg tells what the device says");
    const uint64_t pinned = host.pinned_memory();
    said.evidence += fmt::format("; {} bytes needed, {} allowed by RLIMIT_MEMLOCK", bytes, *limit);
    if (pinned != 0) said.evidence += fmt::format(", {} of these taken", pinned);
    if (pinned + bytes > *limit) said.cause = cause + ": RLIMIT_MEMLOCK is too low";
    said.remedy = memlock_remedy();
    return said;
}

Verdict no_raw_packets(const std::string& device, int error) {
    return refused("ibv_create_qp", error, verbs::Attempt::create_raw_qp,
                   fmt::format("{} refuses RAW_PACKET QPs", device));
}

} // namespace diagnosis
