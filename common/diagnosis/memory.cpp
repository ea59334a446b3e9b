// SPDX-License-Identifier: BSD-3-Clause
// Memory for packets: hugepages, and their distance from the device.
#include "common/diagnosis/links.hpp"

#include <cstdlib>
#include <set>

namespace diagnosis::links {
namespace {

constexpr const char* kNodes = "/sys/devices/system/node";

uint64_t number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

/// "2048 kB: 128 free of 256", for every size of which the folder has any.
struct Pages {
    std::string text;
    uint64_t free = 0;
};
Pages pages_in(const Host& host, const std::string& folder) {
    Pages pages;
    for (const std::string& size : host.list(folder)) {
        const uint64_t all = number(host.line(fmt::format("{}/{}/nr_hugepages", folder, size)));
        const uint64_t free = number(host.line(fmt::format("{}/{}/free_hugepages", folder, size)));
        if (all == 0) continue;
        pages.free += free;
        pages.text += fmt::format("{}{}: {} free of {}", pages.text.empty() ? "" : ", ",
                                  size.substr(size.find('-') + 1), free, all);
    }
    if (pages.text.empty()) pages.text = "no hugepages";
    return pages;
}

/// CPUs of a list as the kernel writes it: "0-3,8".
std::set<unsigned> cpus_of(const std::string& list) {
    std::set<unsigned> cpus;
    const char* at = list.c_str();
    while (*at != '\0') {
        char* end = nullptr;
        const unsigned long first = std::strtoul(at, &end, 10);
        if (end == at) break;
        unsigned long last = first;
        if (*end == '-') last = std::strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < 65536; ++cpu)
            cpus.insert(static_cast<unsigned>(cpu));
        at = *end == ',' ? end + 1 : end;
    }
    return cpus;
}

} // namespace

Verdict hugepages(Case& subject) {
    const Pages pages = pages_in(subject.host, "/sys/kernel/mm/hugepages");
    if (pages.free == 0)
        return Verdict::warning(
            pages.text,
            "EAL finds no free hugepages: programs need --no-huge, packets cost "
            "more, and there are no secondary processes",
            "echo 512 > /proc/sys/vm/nr_hugepages");
    if (subject.host.text("/proc/mounts").find(" hugetlbfs ") == std::string::npos)
        return Verdict::warning(pages.text + ", and no hugetlbfs is mounted",
                                "EAL needs a mount point of hugetlbfs, or --in-memory",
                                "mkdir -p /dev/hugepages && mount -t hugetlbfs hugetlbfs "
                                "/dev/hugepages");
    return Verdict::ok(pages.text);
}

Verdict numa(Case& subject) {
    const int node = subject.host.sysfs().numa_node(subject.device);
    if (node < 0) return Verdict::ok("the device is as near to all CPUs");
    const std::string folder = fmt::format("{}/node{}", kNodes, node);
    const std::set<unsigned> near = cpus_of(subject.host.line(folder + "/cpulist"));
    const std::set<unsigned> mine =
        cpus_of(subject.host.field("/proc/self/status", "Cpus_allowed_list"));
    bool any = false;
    for (const unsigned cpu : mine)
        any = any || near.contains(cpu);
    const std::string evidence =
        fmt::format("node {}, CPUs {}", node, subject.host.line(folder + "/cpulist"));
    if (!any)
        return Verdict::warning(
            evidence + "; this process may run on none of them",
            "every packet crosses the link between the NUMA nodes",
            fmt::format("give the program CPUs of node {}: numactl -N {}, EAL's "
                        "-l; cpuset of the container",
                        node, node));
    const Pages all = pages_in(subject.host, "/sys/kernel/mm/hugepages");
    const Pages local = pages_in(subject.host, folder + "/hugepages");
    if (all.free != 0 && local.free == 0)
        return Verdict::warning(
            fmt::format("{}; {} there", evidence, local.text),
            "packets will lie in the memory of another NUMA node",
            fmt::format("echo 512 > {}/hugepages/hugepages-2048kB/nr_hugepages", folder));
    return Verdict::ok(evidence);
}

} // namespace diagnosis::links
