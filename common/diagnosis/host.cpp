// SPDX-License-Identifier: BSD-3-Clause
#include "common/diagnosis/host.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

namespace diagnosis {

std::string Host::field(std::string_view path, std::string_view key) const {
    std::istringstream lines(text(path));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':')
            continue;
        const size_t start = line.find_first_not_of(" \t", key.size() + 1);
        return start == line.npos ? std::string() : line.substr(start);
    }
    return {};
}

bool Host::capable(unsigned capability) const {
    const std::string sets = field("/proc/thread-self/status", "CapEff");
    return (std::strtoull(sets.c_str(), nullptr, 16) >> capability & 1) != 0;
}

bool Host::in_user_namespace() const {
    std::istringstream map(text("/proc/self/uid_map"));
    uint64_t inside = 0, outside = 0, count = 0;
    constexpr uint64_t kAll = 0xffffffff;
    if (!(map >> inside >> outside >> count)) return false;
    return inside != 0 || outside != 0 || count != kAll;
}

bool Host::in_container() const {
    if (exists("/.dockerenv") || exists("/run/.containerenv")) return true;
    const std::string groups = text("/proc/1/cgroup");
    constexpr std::array kTraces = {"docker", "kubepods", "libpod", "containerd", "lxc"};
    return std::any_of(kTraces.begin(), kTraces.end(),
                       [&](const char* trace) { return groups.find(trace) != groups.npos; });
}

} // namespace diagnosis
