// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/config.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <sys/random.h>

namespace softhca {
namespace {

using nlohmann::json;

constexpr size_t kMaxPorts = 32;
constexpr size_t kMaxNameLength = 15; // IFNAMSIZ - 1, and short enough for an RDMA device
constexpr std::array<std::string_view, 12> kPortOptions = {
    "wire", "netdev", "mac", "mtu",     "speed", "pause",
    "devx", "device", "pci", "carrier", "fault", "steering_format"};
// The speeds for which both verbs and ethtool have a value.
constexpr std::array<uint32_t, 8> kSpeedsMbps = {1000,  10000,  25000,  40000,
                                                 50000, 100000, 200000, 400000};
constexpr unsigned kMaxSteeringFormat = 1;
// A small port has IPv4's minimum; 9978 is the largest that a ConnectX offers.
constexpr unsigned kMinMtu = 68, kMaxMtu = 9978;

std::optional<unsigned> to_number(std::string_view text, int base = 10) {
    unsigned value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value, base);
    if (error != std::errc{} || stop != end) return std::nullopt;
    return value;
}

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= kMaxNameLength && text != "." && text != ".." &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) {
               return std::isalnum(c) || c == '_' || c == '-' || c == '.';
           });
}

/// Reads hexadecimal fields by a pattern of the text's exact shape, for example "xx:xx.x".
bool scan_hex(std::string_view text, std::string_view pattern, std::span<unsigned> fields) {
    if (text.size() != pattern.size()) return false;
    size_t at = 0;
    for (unsigned& field : fields) {
        const size_t end = std::min(pattern.find_first_not_of('x', at), pattern.size());
        const auto value = to_number(text.substr(at, end - at), 16);
        if (!value || (end < pattern.size() && text[end] != pattern[end])) return false;
        field = *value;
        at = end + 1;
    }
    return true;
}

Result<void> set_mac(PortConfig& port, std::string_view value) {
    std::array<unsigned, 6> bytes{};
    const bool well_formed = scan_hex(value, "xx:xx:xx:xx:xx:xx", bytes);
    std::copy(bytes.begin(), bytes.end(), port.mac.begin());
    if (!well_formed || port.mac == std::array<uint8_t, 6>{} || (port.mac[0] & 1))
        return fail(EINVAL, "mac={}: not a unicast MAC address; write it as 02:00:00:00:00:01",
                    value);
    return {};
}

Result<void> set_mtu(PortConfig& port, std::string_view value) {
    const auto mtu = to_number(value);
    if (!mtu || *mtu < kMinMtu || *mtu > kMaxMtu)
        return fail(EINVAL, "mtu={}: give a number of bytes from {} to {}", value, kMinMtu,
                    kMaxMtu);
    port.mtu = uint16_t(*mtu);
    return {};
}

Result<void> set_speed(PortConfig& port, std::string_view value) {
    const bool giga = value.ends_with('G');
    const auto number = to_number(giga ? value.substr(0, value.size() - 1) : value);
    const uint64_t mbps = uint64_t{number.value_or(0)} * (giga ? 1000 : 1);
    if (std::find(kSpeedsMbps.begin(), kSpeedsMbps.end(), mbps) == kSpeedsMbps.end())
        return fail(EINVAL, "speed={}: give one of {} (Mbit/s), or 1G … 400G", value,
                    fmt::join(kSpeedsMbps, ", "));
    port.speed_mbps = uint32_t(mbps);
    return {};
}

Result<void> set_pause(PortConfig& port, std::string_view value) {
    if (value != "on" && value != "off") return fail(EINVAL, "pause={}: give on or off", value);
    port.pause = value == "on";
    return {};
}

Result<void> set_devx(PortConfig& port, std::string_view value) {
    if (value != "on" && value != "off") return fail(EINVAL, "devx={}: give on or off", value);
    port.devx = value == "on";
    return {};
}

Result<void> set_steering_format(PortConfig& port, std::string_view value) {
    const auto format = to_number(value);
    if (!format || *format > kMaxSteeringFormat)
        return fail(EINVAL,
                    "steering_format={}: give 0, that of ConnectX-5, or 1, of ConnectX-6 Dx",
                    value);
    port.steering_format = static_cast<uint8_t>(*format);
    return {};
}

Result<void> set_carrier(PortConfig& port, std::string_view value) {
    if (value != "always" && value != "peer")
        return fail(EINVAL, "carrier={}: give peer or always", value);
    port.carrier_always = value == "always";
    return {};
}

Result<void> set_device(PortConfig& port, std::string_view value) {
    if (!is_name(value))
        return fail(EINVAL, "device={}: give a name of up to {} letters, digits, '_', '-', '.'",
                    value, kMaxNameLength);
    port.device = value;
    return {};
}

Result<void> set_pci(PortConfig& port, std::string_view value) {
    std::array<unsigned, 4> part{}; // domain, bus, device, function
    if (!scan_hex(value, "xxxx:xx:xx.x", part) || part[2] > 0x1f || part[3] > 7)
        return fail(EINVAL, "pci={}: not a PCI address; write it as 0000:ca:00.0", value);
    port.pci = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", part[0], part[1], part[2], part[3]);
    return {};
}

Result<void> set_netdev(PortConfig& port, std::string_view value) {
    const bool tap = value == "tap" || value.starts_with("tap:");
    const std::string_view name = !tap ? value : value.substr(value == "tap" ? 3 : 4);
    if (value != "tap" && !is_name(name))
        return fail(EINVAL,
                    "netdev={}: give tap, tap:NAME or NAME, where NAME has up to {} letters, "
                    "digits, '_', '-', '.'",
                    value, kMaxNameLength);
    if (name == "lo")
        return fail(EINVAL,
                    "netdev={}: that is the machine's loopback interface, which programs "
                    "need; choose another name",
                    value);
    port.netdev_tap = tap;
    port.netdev = name;
    return {};
}

Result<void> set_faults(PortConfig& port, std::string_view value) {
    auto faults = parse_command_faults(value);
    if (!faults) return fail(EINVAL, "fault={}: {}", value, faults.error().what);
    port.faults = std::move(*faults);
    return {};
}

std::array<uint8_t, 6> random_mac(size_t index) {
    // 02: locally administered. The two ends of a cable must differ, also between two runs.
    std::array<uint8_t, 6> mac = {0x02, 0x5c, 0, 0, 0, uint8_t(index)};
    (void)!getrandom(&mac[2], 3, 0);
    return mac;
}

/// The command-line text for a JSON value.
Result<std::string> option_text(const std::string& key, const json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean()) return std::string(value.get<bool>() ? "on" : "off");
    if (value.is_number_integer()) return value.dump();
    return fail(EINVAL, "\"{}\": expected a string, a whole number, true or false, not {}", key,
                value.dump());
}

Result<int> whole_number(const std::string& key, const json& value, int minimum, int maximum) {
    if (!value.is_number_integer() || value < minimum || value > maximum)
        return fail(EINVAL, "\"{}\": expected a whole number from {} to {}, not {}", key, minimum,
                    maximum, value.dump());
    return value.get<int>();
}

constexpr int kMaxFd = 1 << 20, kMaxThreads = 64, kMaxCpu = 4095;

Result<PortConfig> port_from_json(const json& object) {
    if (!object.is_object())
        return fail(EINVAL, "\"ports\": each must be an object, not {}", object.dump());
    PortConfig port;
    for (const auto& [key, value] : object.items()) {
        if (key == "wire_fd" || key == "netdev_fd") {
            auto fd = whole_number(key, value, -1, kMaxFd);
            if (!fd) return tl::unexpected(fd.error());
            (key == "wire_fd" ? port.wire_fd : port.netdev_fd) = *fd;
            continue;
        }
        auto text = option_text(key, value);
        if (!text) return tl::unexpected(text.error());
        if (auto set = set_port_option(port, key, *text); !set) return tl::unexpected(set.error());
    }
    return port;
}

Result<void> set_general(Config& config, const std::string& key, const json& value) {
    const auto into = [](auto& field, const Result<int>& number) -> Result<void> {
        if (!number) return tl::unexpected(number.error());
        field = std::decay_t<decltype(field)>(*number);
        return {};
    };
    if (key == "threads") return into(config.threads, whole_number(key, value, 1, kMaxThreads));
    if (key == "verbose") return into(config.verbose, whole_number(key, value, 0, 9));
    if (key == "enforce" && value.is_boolean()) {
        config.enforce = value.get<bool>();
        return {};
    }
    if (key == "runtime_dir" && value.is_string()) {
        config.runtime_dir = value.get<std::string>();
        return {};
    }
    if ((key != "cpus" && key != "ports") || !value.is_array())
        return fail(EINVAL,
                    "\"{}\": {}; the keys are ports (a list of objects), threads (a number), cpus "
                    "(a list of numbers) and enforce (true or false)",
                    key,
                    key == "cpus" || key == "ports" ? "not a list"
                    : key == "enforce"              ? "not true or false"
                                                    : "not a known key");
    for (const json& element : value) {
        if (key == "cpus") {
            auto cpu = into(config.cpus.emplace_back(), whole_number(key, element, 0, kMaxCpu));
            if (!cpu) return cpu;
        } else {
            auto port = port_from_json(element);
            if (!port) return tl::unexpected(port.error());
            config.ports.push_back(std::move(*port));
        }
    }
    return {};
}

template <class Names> std::string first_repeated(const Names& names) {
    std::set<std::string> seen;
    for (const std::string& name : names)
        if (!name.empty() && !seen.insert(name).second) return name;
    return {};
}

} // namespace

Result<void> set_port_option(PortConfig& port, std::string_view key, std::string_view value) {
    if (key == "wire") {
        if (value.empty()) return fail(EINVAL, "wire=: where to? For example wire=loop");
        port.wire = value;
        return {};
    }
    if (key == "netdev") return set_netdev(port, value);
    if (key == "mac") return set_mac(port, value);
    if (key == "mtu") return set_mtu(port, value);
    if (key == "speed") return set_speed(port, value);
    if (key == "pause") return set_pause(port, value);
    if (key == "devx") return set_devx(port, value);
    if (key == "steering_format") return set_steering_format(port, value);
    if (key == "carrier") return set_carrier(port, value);
    if (key == "device") return set_device(port, value);
    if (key == "pci") return set_pci(port, value);
    if (key == "fault") return set_faults(port, value);
    return fail(EINVAL, "'{}': not an option of a port; the options are {}", key,
                fmt::join(kPortOptions, ", "));
}

Result<PortConfig> parse_port(std::string_view text) {
    const auto names_option = [](std::string_view piece) {
        return std::any_of(kPortOptions.begin(), kPortOptions.end(), [&](std::string_view key) {
            return piece.starts_with(key) && piece.substr(key.size()).starts_with('=');
        });
    };
    PortConfig port;
    std::set<std::string_view> given;
    while (!text.empty()) {
        size_t end = text.find(',');
        while (end != text.npos && !names_option(text.substr(end + 1)))
            end = text.find(',', end + 1);
        const std::string_view option = text.substr(0, end);
        text = end == text.npos ? std::string_view{} : text.substr(end + 1);
        const size_t equals = option.find('=');
        if (equals == option.npos)
            return fail(EINVAL, "'{}': expected key=value; the keys are {}", option,
                        fmt::join(kPortOptions, ", "));
        const std::string_view key = option.substr(0, equals);
        if (!given.insert(key).second)
            return fail(EINVAL,
                        "{}=: given twice for one port; a second port has a --port of its own",
                        key);
        auto set = set_port_option(port, key, option.substr(equals + 1));
        if (!set) return tl::unexpected(set.error());
    }
    return port;
}

Result<void> complete(Config& config) {
    if (config.ports.empty()) config.ports.emplace_back();
    if (config.ports.size() > kMaxPorts)
        return fail(EINVAL, "{} ports: at most {} are possible", config.ports.size(), kMaxPorts);
    // One CPU for each thread; a shorter list is used cyclically.
    const size_t cpus = config.cpus.size();
    const size_t wanted = config.threads.value_or(std::max<size_t>(cpus, 1));
    config.threads = static_cast<unsigned>(std::min(wanted, config.ports.size()));
    if (cpus) config.cpus.resize(*config.threads);
    for (size_t i = cpus; i && i < config.cpus.size(); ++i)
        config.cpus[i] = config.cpus[i % cpus];

    std::vector<std::string> devices, addresses, netdevs;
    for (size_t i = 0; i < config.ports.size(); ++i) {
        PortConfig& port = config.ports[i];
        if (port.device.empty()) port.device = fmt::format("mlx5_{}", i);
        // Eight functions per card, as in a multi-port NIC.
        if (port.pci.empty()) port.pci = fmt::format("0000:ca:{:02x}.{}", i / 8, i % 8);
        // A real TAP without a name gets it from the kernel when the launcher opens it.
        if (port.netdev.empty() && !port.netdev_tap) port.netdev = fmt::format("soft{}", i);
        if (port.mac == std::array<uint8_t, 6>{}) port.mac = random_mac(i);
        devices.push_back(port.device);
        addresses.push_back(port.pci);
        netdevs.push_back(port.netdev);
        if (port.wire.starts_with("tap:")) // possibly with an option of the wire after its name
            netdevs.push_back(port.wire.substr(4, port.wire.find(':', 4) - 4));
    }
    for (const auto& [key, names] :
         {std::pair{"device", devices}, std::pair{"pci", addresses}, std::pair{"netdev", netdevs}})
        if (const std::string name = first_repeated(names); !name.empty())
            return fail(EINVAL, "{}={}: used twice; give each port (and TAP wire) its own", key,
                        name);
    return {};
}

std::string to_json(const Config& config) {
    json ports = json::array();
    for (const PortConfig& port : config.ports) {
        ports.push_back({{"device", port.device},
                         {"pci", port.pci},
                         {"mac", fmt::format("{:02x}", fmt::join(port.mac, ":"))},
                         {"mtu", port.mtu},
                         {"speed", port.speed_mbps},
                         {"pause", port.pause},
                         {"carrier", port.carrier_always ? "always" : "peer"},
                         {"wire", port.wire},
                         {"netdev", (port.netdev_tap ? "tap:" : "") + port.netdev},
                         {"fault", to_text(port.faults)},
                         {"wire_fd", port.wire_fd},
                         {"netdev_fd", port.netdev_fd}});
        if (port.devx) ports.back()["devx"] = *port.devx;
        if (port.steering_format) ports.back()["steering_format"] = *port.steering_format;
    }
    const json root = {{"ports", ports},
                       {"threads", config.threads.value_or(1)},
                       {"cpus", config.cpus},
                       {"runtime_dir", config.runtime_dir},
                       {"verbose", config.verbose},
                       {"enforce", config.enforce}};
    // Paths need not be UTF-8.
    return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Config> config_from_json(const std::string& text) {
    json root;
    try {
        root = json::parse(text, nullptr, true, /*ignore_comments=*/true);
    } catch (const json::exception& error) {
        return fail(EINVAL, "not valid JSON: {}", error.what());
    }
    if (!root.is_object()) return fail(EINVAL, "expected a JSON object with the key \"ports\"");
    Config config;
    for (const auto& [key, value] : root.items())
        if (auto set = set_general(config, key, value); !set) return tl::unexpected(set.error());
    return config;
}

Result<Config> load_config_file(const std::string& path) {
    errno = 0;
    std::ifstream file(path);
    std::ostringstream text;
    if (!(text << file.rdbuf()) && errno) // without one it is empty
        return fail(errno, "{}: cannot read it as a configuration file ({})", path,
                    std::strerror(errno));
    auto config = config_from_json(text.str());
    if (!config) return fail(config.error().code, "{}: {}", path, config.error().what);
    return config;
}

Result<Config> load_config() {
    const char* path = std::getenv(kConfigVariable);
    if (!path || !*path)
        return fail(ENOENT, "{} is not set; start the program by `softhca [options] -- program …`",
                    kConfigVariable);
    return load_config_file(path);
}

} // namespace softhca
