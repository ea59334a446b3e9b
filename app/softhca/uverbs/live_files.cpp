// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/live_files.hpp"

#include "app/softhca/uverbs/census.hpp"
#include "app/softhca/uverbs/paths.hpp"
#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/small_file.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

/// A file of a port that changes: its name below the port's folder, or the netdev's.
struct LiveFile {
    Port* port;
    std::string name;
};

/// Strips `folder` and a slash; false if `path` is not below it.
bool enter(std::string_view& path, const std::string& folder) {
    if (!path.starts_with(folder) || path.substr(folder.size(), 1) != "/") return false;
    path.remove_prefix(folder.size() + 1);
    return true;
}

std::optional<LiveFile> find(Runtime& runtime, std::string_view path) {
    for (const auto& port : runtime.ports()) {
        std::string_view name = path;
        if (!enter(name, pci_folder(port->config))) continue;
        // A TAP's other files are links to the kernel's own.
        if (enter(name, "infiniband/" + port->config.device + "/ports/1") ||
            (!port->netdev.is_tap() && enter(name, "net/" + port->config.netdev)))
            return LiveFile{port.get(), std::string(name)};
        return std::nullopt;
    }
    return std::nullopt;
}

bool tells_state(const std::string& name) {
    return name == "state" || name == "phys_state" || name == "operstate" || name == "carrier";
}
bool tells_count(std::string_view name) {
    return name.starts_with("counters/") || name.starts_with("hw_counters/") ||
           name.starts_with("statistics/");
}

const char* state_line(const std::string& name, bool up) {
    if (name == "state") return up ? "4: ACTIVE" : "1: DOWN";
    if (name == "phys_state") return up ? "5: LinkUp" : "3: Disabled";
    if (name == "operstate") return up ? "up" : "down";
    return up ? "1" : "0";
}

void refresh(const LiveFile& live, const char* file) {
    Runtime& runtime = *Runtime::get();
    const PortView view = view_port(take_census(runtime), *live.port);
    if (tells_state(live.name)) return write_line(file, state_line(live.name, view.link_up));
    const auto counter = view.counters.find(live.name);
    if (counter != view.counters.end()) write_line(file, std::to_string(counter->second));
}

} // namespace

void refresh_live_file(int fd) {
    const int saved = errno;
    std::array<char, PATH_MAX> file{};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = readlink(link.c_str(), file.data(), file.size() - 1);
    std::array<char, PATH_MAX> name = file;
    Runtime* runtime = length > 0 && strip_root(name.data()) ? Runtime::get() : nullptr;
    if (runtime)
        if (const auto live = find(*runtime, name.data());
            live && (tells_state(live->name) || tells_count(live->name)))
            refresh(*live, file.data());
    errno = saved;
}

} // namespace softhca::uverbs
