// SPDX-License-Identifier: BSD-3-Clause
// The driver as a file that EAL loads, and what it must find: DPDK's ABI, device arguments, what
// processes share.
#include "common/allowed.hpp"
#include "common/diagnosis/links.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace diagnosis::links {
namespace {

constexpr const char* kName = "librte_net_rawqp.so";

/// What follows `mark` in a file, up to one of `ends`; empty when it is not there.
std::string text_after(const std::string& bytes, std::string_view mark, std::string_view ends) {
    const size_t found = bytes.find(mark);
    if (found == bytes.npos) return {};
    const size_t start = found + mark.size();
    return bytes.substr(start, bytes.find_first_of(ends, start) - start);
}

/// First folder above a file, from the innermost, that every user may write to; empty: none. EAL
/// loads nothing below it by its path.
std::string world_writable_parent(const Host& host, std::string path) {
    while (path.rfind('/') != path.npos && path.rfind('/') != 0) {
        path.erase(path.rfind('/'));
        struct stat folder {};
        if (stat(host.at(path).c_str(), &folder) == 0 && (folder.st_mode & S_IWOTH) != 0)
            return path;
    }
    return {};
}

/// Folders that the dynamic linker looks into.
std::vector<std::string> library_folders(const Case& subject) {
    std::vector<std::string> folders = {"/usr/lib", "/usr/lib64", "/usr/local/lib",
                                        "/usr/local/lib64"};
    // …/dpdk/pmds-23.0 lies in the folder of the libraries.
    std::string above = subject.plugin_folder;
    for (int step = 0; step < 2 && above.rfind('/') != above.npos; ++step)
        above.erase(above.rfind('/'));
    if (!above.empty()) folders.push_back(above);
    if (const char* const more = std::getenv("LD_LIBRARY_PATH")) {
        std::string_view rest = more;
        while (!rest.empty()) {
            const size_t colon = std::min(rest.find(':'), rest.size());
            if (colon != 0) folders.emplace_back(rest.substr(0, colon));
            rest.remove_prefix(std::min(colon + 1, rest.size()));
        }
    }
    return folders;
}

/// The file that EAL loads for `-d NAME`: that of a path, else the one that the dynamic linker
/// finds.
std::string file_of_option(const Case& subject, const std::string& name) {
    if (subject.host.exists(name)) return std::filesystem::absolute(name).lexically_normal();
    if (name.find('/') == name.npos)
        for (const std::string& folder : library_folders(subject))
            if (const std::string file = fmt::format("{}/{}", folder, name);
                subject.host.exists(file))
                return file;
    return name;
}

/// ABI versions of the DPDK libraries there: "23".
std::set<std::string> installed_abis(const Case& subject) {
    constexpr std::string_view kEal = "librte_eal.so.";
    std::set<std::string> found;
    for (const std::string& folder : library_folders(subject))
        for (const std::string& name : subject.host.list(folder))
            if (name.starts_with(kEal) && name.find('.', kEal.size()) == name.npos)
                found.insert(name.substr(kEal.size()));
    return found;
}

/// "device=<string> port=<1..255>" of the record for dpdk-pmdinfo, by key.
std::map<std::string, std::string> arguments_of(const std::string& bytes) {
    std::map<std::string, std::string> arguments;
    // Assembled at run time, as the driver's file contains this code as well: a literal would be
    // found first.
    const std::string start =
        fmt::format("PMD_INFO_STRING= {{\"name\": \"{}\", \"params\": \"", "net_rawqp");
    const size_t record = bytes.find(start);
    if (record == bytes.npos) return arguments;
    std::string_view rest = bytes;
    rest.remove_prefix(record + start.size());
    rest = rest.substr(0, rest.find('\0'));
    for (;;) {
        const size_t open = rest.find("=<"), close = rest.find('>');
        if (open == rest.npos || close == rest.npos) return arguments;
        arguments[std::string(rest.substr(0, open))] = rest.substr(open + 2, close - open - 2);
        rest.remove_prefix(std::min(close + 2, rest.size()));
    }
}

/// What is wrong with the arguments; empty: nothing.
std::string complaint(const std::string& devargs,
                      const std::map<std::string, std::string>& arguments) {
    std::map<std::string, std::string> given;
    std::string_view rest = devargs;
    for (bool first = true; !rest.empty(); first = false) {
        const std::string_view pair = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
        const size_t equals = pair.find('=');
        if (first && equals == pair.npos && pair.starts_with("net_rawqp"))
            continue; // --vdev's name
        const std::string key(pair.substr(0, equals));
        const auto known = arguments.find(key);
        if (known == arguments.end()) {
            std::string all;
            for (const auto& [name, allowed] : arguments)
                all += fmt::format(" {}=<{}>", name, allowed);
            return fmt::format("unknown device argument \"{}\": known are{}", key, all);
        }
        if (equals == pair.npos || equals + 1 == pair.size())
            return fmt::format("device argument \"{}\" has no value", key);
        const auto value = check_value(key, parse_allowed(known->second), pair.substr(equals + 1));
        if (!value) return value.error().what;
        if (!given.emplace(key, value->text).second)
            return fmt::format("device argument \"{}\" is given more than once", key);
    }
    if (given.contains("device") == given.contains("iface"))
        return "one of device= and iface= is needed, and one only";
    if (given.contains("iface") && given.contains("port"))
        return "port= goes with device=: an interface names its RDMA port itself";
    return {};
}

/// Where EAL keeps what processes share.
std::string runtime_folder() {
    if (const char* const service = std::getenv("RUNTIME_DIRECTORY")) return service; // of systemd
    const char* const own = std::getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0) return "/var/run";
    return own != nullptr ? own : "/tmp";
}

} // namespace

Verdict plugin(Case& subject) {
    const bool given = !subject.plugin.empty();
    if (!given) subject.plugin = fmt::format("{}/{}", subject.plugin_folder, kName);
    const bool by_path = subject.host.exists(subject.plugin); // EAL checks who may write to it
    subject.plugin = file_of_option(subject, subject.plugin);
    const auto bytes = files::contents(subject.host.at(subject.plugin));
    if (!bytes) {
        const std::string evidence = fmt::format("{} cannot be read", subject.plugin);
        if (given)
            return Verdict::broken(evidence, "there is no driver for EAL to load",
                                   fmt::format("-d {}/{}", subject.plugin_folder, kName));
        return Verdict::warning(evidence,
                                "the driver is not installed where this DPDK looks for drivers",
                                "meson install -C build, or EAL's option -d FILE; rawqp-doctor "
                                "--plugin FILE looks at that one");
    }
    const std::string abi = text_after(*bytes, "librte_eal.so.", std::string_view("\0", 1));
    const std::set<std::string> abis = installed_abis(subject);
    if (!abis.contains(abi))
        return Verdict::broken(
            fmt::format("{} wants librte_eal.so.{}; installed: {}", subject.plugin, abi,
                        abis.empty() ? "none" : fmt::format("{}", fmt::join(abis, ", "))),
            "the driver was built for another release of DPDK than is installed",
            "build it anew with the DPDK that runs the program (scripts/setup), or put that "
            "DPDK's libraries in LD_LIBRARY_PATH");
    const std::string open =
        by_path ? world_writable_parent(subject.host, subject.plugin) : std::string();
    if (!open.empty())
        return Verdict::broken(
            fmt::format("every user may write to {}", open),
            fmt::format("EAL refuses to load {} by its path", subject.plugin),
            fmt::format("LD_LIBRARY_PATH={} PROGRAM -d {}, or install it (meson install -C build)",
                        subject.plugin.substr(0, subject.plugin.rfind('/')),
                        files::base_name(subject.plugin)));
    return Verdict::ok(fmt::format("{}, DPDK ABI {}", subject.plugin, abi));
}

Verdict devargs(Case& subject) {
    if (subject.devargs.empty()) return Verdict::ok("none were given (--devargs)");
    const auto arguments =
        arguments_of(files::contents(subject.host.at(subject.plugin)).value_or(""));
    if (arguments.empty())
        return Verdict::unknown(fmt::format("{} does not tell its arguments", subject.plugin));
    const std::string wrong = complaint(subject.devargs, arguments);
    if (wrong.empty()) return Verdict::ok(subject.devargs);
    return Verdict::broken(
        subject.devargs, wrong,
        fmt::format("dpdk-pmdinfo.py {} lists them, the guide explains them", subject.plugin));
}

Verdict dpdk_driver(Case& subject) {
    const std::string address = subject.host.sysfs().bus_address(subject.device);
    const std::string away = fmt::format("--no-pci, -b {}, or -a for other devices", address);
    for (const std::string& port : subject.dpdk_ports)
        if (!address.empty() && port.starts_with(address + " "))
            return Verdict::warning(
                fmt::format("DPDK port {}", port),
                "DPDK's own driver has taken the NIC: two drivers on it take each other's packets",
                fmt::format("start the program with {}", away));
    const std::vector<std::string> plugins = subject.host.list(subject.plugin_folder);
    const bool installed = std::ranges::any_of(
        plugins, [](const std::string& name) { return name.starts_with("librte_net_mlx5.so"); });
    if (!installed) return Verdict::ok("net_mlx5 is not installed");
    return Verdict::ok(fmt::format("no program uses it; keep it away by {}", away));
}

Verdict secondary(Case& subject) {
    const std::string folder = runtime_folder();
    if (access(subject.host.at(folder).c_str(), W_OK) != 0)
        return Verdict::warning(
            fmt::format("{} is not writable", folder),
            "EAL cannot share its configuration: there are no secondary processes, and programs "
            "need "
            "--no-shconf or --in-memory",
            "export XDG_RUNTIME_DIR=/run/user/$(id -u), the same for primary and secondaries");
    uint64_t pages = 0;
    for (const std::string& size : subject.host.list("/sys/kernel/mm/hugepages"))
        pages += std::strtoull(
            subject.host.line(fmt::format("/sys/kernel/mm/hugepages/{}/nr_hugepages", size))
                .c_str(),
            nullptr, 10);
    if (pages == 0)
        return Verdict::warning(
            "no hugepages",
            "secondary processes share hugepages only: EAL has none of them with "
            "--no-huge or --in-memory",
            "echo 512 > /proc/sys/vm/nr_hugepages");
    return Verdict::ok(fmt::format("hugepages, {} is writable; a secondary needs the same user, "
                                   "--file-prefix and DPDK as its primary",
                                   folder));
}

} // namespace diagnosis::links
