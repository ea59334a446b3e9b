// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-doctor/watch.hpp"

#include <algorithm>
#include <fnmatch.h>
#include <span>

namespace doctor {
namespace {

using diagnosis::Finding;
using diagnosis::State;
using diagnosis::Verdict;

struct Cause {
    std::string_view id;
    State state;
    std::array<const char*, 4> of_device;  ///< names of counters, as fnmatch(3) patterns
    std::array<const char*, 2> of_program; ///< xstats of DPDK ports
    const char* cause;
    const char* remedy;
};

// Names are those of mlx5
// (Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst of the kernel,
// hw_counters in sysfs) and of ethdev.
constexpr Cause kCauses[] = {
    {"drops-no-descriptors",
     State::broken,
     {"out_of_buffer"},
     {"rx_q*_missed_errors"},
     "no descriptors: a receive queue had no buffers when packets came",
     "poll more often, or with more lcores and queues; more descriptors (--rxd); is the mempool "
     "empty, or a queue polled by nobody?"},
    {"drops-no-mbufs",
     State::broken,
     {},
     {"rx_mbuf_allocation_errors"},
     "no mbufs: the pool of a receive queue is empty",
     "a larger mempool; does the application free all mbufs that it receives?"},
    {"drops-no-match",
     State::broken,
     {"rx_steer_missed_packets"},
     {},
     "no match: no rule leads these packets anywhere",
     "rte_eth_promiscuous_enable, or the packets' MAC address and VLAN; in isolated mode a flow "
     "rule"},
    {"drops-nic-buffer",
     State::broken,
     {"rx_discards_phy", "rx_prio*_discards", "rx_prio*_buf_discard"},
     {},
     "the NIC's own buffer was full: PCI or memory are too slow for what comes in",
     "flow control (ethtool -A IFACE rx on tx on); cqe_comp=1, mprq_en=1; is the PCI link as wide "
     "as it should be (lspci -vv, LnkSta)?"},
    {"drops-wire-errors",
     State::broken,
     {"rx_crc_errors_phy", "rx_symbol_err_phy", "rx_*_len_errors_phy", "rx_*size_pkts_phy"},
     {},
     "errors: frames came broken, too long or too short",
     "cable, transceiver and FEC (ethtool --show-fec IFACE); the peer's MTU against the port's"},
    {"drops-queue-errors",
     State::broken,
     {},
     {"rx_q*[0-9]_errors", "rx_errors"},
     "errors: packets of a queue were lost when it was reset after an error completion",
     "the program's log names the error of each reset"},
    {"drops-sending",
     State::broken,
     {"tx_discards_phy", "tx_errors_phy"},
     {"tx_errors"},
     "packets that were to be sent were dropped by the device or the driver",
     "the program's log names errors of Tx queues; ethtool -S IFACE shows which counter grows"},
    {"drops-kernel",
     State::warning,
     {"rx_out_of_buffer"},
     {},
     "the kernel's interface got more than it could take: packets that no rule of the driver takes",
     "give the driver these packets (promiscuous mode, flow rules), or: ethtool -G IFACE rx 8192"},
    {"pause-received",
     State::warning,
     {"rx_pause_ctrl_phy", "rx_global_pause", "rx_prio*_pause"},
     {},
     "pause: the peer asks to send more slowly",
     "what the peer cannot take is held back here; ethtool -A IFACE rx off drops it there instead"},
    {"pause-sent",
     State::warning,
     {"tx_pause_ctrl_phy", "tx_global_pause", "tx_prio*_pause"},
     {},
     "pause: this port asks its peer to send more slowly",
     "see drops-no-descriptors: the queues are not emptied fast enough"},
};

using Counts = std::map<std::string, uint64_t>;

uint64_t growth(const Counts& before, const Counts& after, const std::string& name) {
    const auto old = before.find(name), now = after.find(name);
    if (old == before.end() || now == after.end() || now->second < old->second) return 0;
    return now->second - old->second;
}

/// "rx_crc_errors_phy +3, rx_symbol_err_phy +1"; empty: nothing increased.
std::string growth_of(const Counts& before, const Counts& after,
                      std::span<const char* const> patterns) {
    const auto belongs = [&](const std::string& counter) {
        return std::ranges::any_of(patterns, [&](const char* pattern) {
            return pattern != nullptr && fnmatch(pattern, counter.c_str(), 0) == 0;
        });
    };
    std::string text;
    for (const auto& [name, value] : after)
        if (const uint64_t more = belongs(name) ? growth(before, after, name) : 0)
            text += fmt::format("{}{} +{}", text.empty() ? "" : ", ", name, more);
    return text;
}

const DpdkPort* find(const std::vector<DpdkPort>& ports, const std::string& name) {
    const auto found = std::ranges::find(ports, name, &DpdkPort::name);
    return found != ports.end() ? &*found : nullptr;
}

/// Numbers of a port's receive queues that received nothing: "1, 3".
std::string idle_queues(const DpdkPort& before, const DpdkPort& after) {
    std::string idle;
    for (unsigned queue = 0;; ++queue) {
        const std::string name = fmt::format("rx_q{}_packets", queue);
        if (!after.xstats.contains(name)) return idle;
        if (growth(before.xstats, after.xstats, name) == 0)
            idle += fmt::format("{}{}", idle.empty() ? "" : ", ", queue);
    }
}

/// The queues of running programs that may be the cause.
std::string suspects(const Counters& before, const Counters& after) {
    std::string text;
    for (const DpdkPort& now : after.ports)
        if (const DpdkPort* const old = find(before.ports, now.name))
            if (const std::string idle = idle_queues(*old, now); !idle.empty())
                text += fmt::format("; Rx queues of {} that took nothing: {}", now.name, idle);
    return text;
}

std::string evidence_of(const Counters& before, const Counters& after, const Cause& cause) {
    std::string text = growth_of(before.device, after.device, cause.of_device);
    if (!text.empty() && std::string_view(cause.id) == "drops-no-descriptors")
        text += suspects(before, after);
    for (const DpdkPort& now : after.ports)
        if (const DpdkPort* const old = find(before.ports, now.name))
            if (const std::string more = growth_of(old->xstats, now.xstats, cause.of_program);
                !more.empty())
                text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", now.name, more);
    return text;
}

} // namespace

Counters read_counters(const diagnosis::Case& subject) {
    Counters counters;
    for (const auto& [name, value] : subject.host.sysfs().hw_counters(subject.device, subject.port))
        counters.device[name] = value;
    if (!subject.netdev.empty())
        if (const auto more = netdev::Netdev(subject.netdev).counters())
            for (const auto& [name, value] : *more)
                counters.device[name] = value;
    counters.ports = running_ports();
    std::erase_if(counters.ports,
                  [](const DpdkPort& port) { return !port.name.starts_with("net_rawqp"); });
    return counters;
}

std::vector<Finding> drops(const Counters& before, const Counters& after, unsigned seconds) {
    std::vector<Finding> findings;
    for (const Cause& cause : kCauses) {
        const std::string evidence = evidence_of(before, after, cause);
        if (!evidence.empty())
            findings.push_back({cause.id,
                                "packets that get lost",
                                {cause.state, fmt::format("{} in {} s", evidence, seconds),
                                 cause.cause, cause.remedy}});
    }
    if (findings.empty())
        findings.push_back(
            {"drops", "packets that get lost",
             Verdict::ok(fmt::format("no counter of lost packets grew in {} s", seconds))});
    return findings;
}

} // namespace doctor
