// SPDX-License-Identifier: BSD-3-Clause
#include "common/diagnosis/checks.hpp"

#include "common/diagnosis/links.hpp"

#include <algorithm>

namespace diagnosis {
namespace {

constexpr Check kChain[] = {
    {"nic", "PCI function and its kernel driver", links::nic},
    {"uverbs-module", "kernel module ib_uverbs", links::uverbs_module},
    {"rdma-device", "RDMA device", links::rdma_device, {"nic"}},
    {"netdev", "network interface beside the port", links::netdev, {"rdma-device"}},
    {"bond", "bonding of that interface", links::bond, {"netdev"}},
    {"uverbs-node",
     "device node and its permissions",
     links::uverbs_node,
     {"rdma-device", "uverbs-module"}},
    {"rdma-cgroup", "limits of the rdma cgroup", links::rdma_cgroup, {"rdma-device"}},
    {"in-use", "other processes on the device", links::in_use, {"uverbs-node"}},
    {"capability", "right to raw packets", links::capability},
    {"memlock", "limit on locked memory", links::memlock},
    {"hugepages", "hugepages", links::hugepages},
    {"numa", "NUMA node of the device", links::numa, {"rdma-device"}},
    {"libibverbs", "rdma-core's libraries", links::libibverbs},
    {"provider",
     "libibverbs' provider for the device",
     links::provider,
     {"libibverbs", "rdma-device", "uverbs-module"}},
    {"device", "device opened and asked", links::device, {"provider", "uverbs-node"}},
    {"port", "port: kind, link, MTU", links::port, {"device"}},
    {"registration", "memory registered, on trial", links::registration, {"device"}},
    {"raw-packet", "RAW_PACKET queue pair, on trial", links::raw_packet, {"device", "capability"}},
    {"work-queue", "receive work queue, on trial", links::work_queue, {"device"}},
    {"rss", "RSS table and hash QP, on trial", links::rss, {"work-queue", "raw-packet"}},
    {"flow", "flow rule, on trial", links::flow, {"rss"}},
    {"interrupts", "channel of Rx interrupts, on trial", links::interrupts, {"device"}},
    {"offloads", "checksum offloads and segmentation", links::offloads, {"device"}},
    {"plugin", "the driver's file and DPDK's ABI", links::plugin},
    {"devargs", "device arguments", links::devargs},
    {"dpdk-driver", "DPDK's own driver on the device", links::dpdk_driver, {"rdma-device"}},
    {"secondary", "preconditions of secondary processes", links::secondary},
};

/// The broken link because of which a check is skipped; empty: none.
std::string_view obstacle(const Check& check, const std::vector<Finding>& findings,
                          std::span<const std::string_view> causes) {
    for (size_t i = 0; i < findings.size(); ++i)
        if (std::ranges::find(check.needs, findings[i].id) != check.needs.end() &&
            !causes[i].empty())
            return causes[i];
    return {};
}

} // namespace

const char* name_of(State state) {
    switch (state) {
    case State::ok: return "ok";
    case State::warning: return "warning";
    case State::broken: return "broken";
    case State::unknown: return "unknown";
    case State::skipped: return "skipped";
    }
    return "unknown";
}

std::string Verdict::sentence() const {
    return fmt::format("{} ({}): {}", cause, evidence, remedy);
}

std::span<const Check> chain() { return kChain; }

std::vector<Finding> examine(Case& subject, const std::function<void(const Finding&)>& report) {
    std::vector<Finding> findings;
    std::vector<std::string_view> causes; // for each finding: the broken link, if any
    for (const Check& check : kChain) {
        const std::string_view broken = obstacle(check, findings, causes);
        findings.push_back({check.id, check.about,
                            broken.empty() ? check.look(subject)
                                           : Verdict{State::skipped, {}, std::string(broken), {}}});
        const bool own = findings.back().verdict.state == State::broken;
        causes.push_back(own ? check.id : broken);
        if (report) report(findings.back());
    }
    return findings;
}

std::optional<Verdict> first_broken(Case& subject, std::initializer_list<std::string_view> ids) {
    for (const Check& check : kChain) {
        if (std::ranges::find(ids, check.id) == ids.end()) continue;
        Verdict verdict = check.look(subject);
        if (verdict.state == State::broken) return verdict;
    }
    return std::nullopt;
}

} // namespace diagnosis
