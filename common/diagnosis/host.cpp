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

std::optional<uint64_t> Host::locked_memory_limit() const {
    constexpr std::string_view kName = "Max locked memory"; // soft limit, hard limit
    std::istringstream lines(text("/proc/self/limits"));
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with(kName)) continue;
        std::istringstream words(line.substr(kName.size()));
        uint64_t bytes = 0;
        if (words >> bytes) return bytes;
    }
    return std::nullopt;
}

uint64_t Host::pinned_memory() const { // "VmPin:  1234 kB"
    return std::strtoull(field("/proc/self/status", "VmPin").c_str(), nullptr, 10) << 10;
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
