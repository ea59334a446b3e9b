// SPDX-License-Identifier: BSD-3-Clause
#include "common/files.hpp"
#include "common/netdev/netdev.hpp"

#include <cerrno>
#include <charconv>

namespace netdev {
namespace {

using files::entries;
using files::exists;
using files::first_line;

template <class Number> bool parse(const std::string& text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

} // namespace

std::string Sysfs::port_path(const std::string& device, uint8_t port) const {
    return fmt::format("{}/class/infiniband/{}/ports/{}", root_, device, port);
}

std::vector<std::string> Sysfs::rdma_devices() const {
    return entries(root_ + "/class/infiniband");
}

Result<std::string> Sysfs::netdev_of(const std::string& device, uint8_t port) const {
    // The GID table names the interface of each GID. VLAN interfaces on top of the port are in it
    // as well: the one directly on hardware is preferred.
    const std::string ndevs = port_path(device, port) + "/gid_attrs/ndevs";
    std::string any;
    for (const std::string& gid : entries(ndevs)) {
        const std::string name = first_line(ndevs + "/" + gid);
        if (name.empty()) continue;
        if (exists(root_ + "/class/net/" + name + "/device")) return name;
        if (any.empty() && exists(root_ + "/class/net/" + name)) any = name;
    }
    if (!any.empty()) return any;

    // A port that is down has no GIDs: ask the parent device for its interfaces.
    const std::string nets = fmt::format("{}/class/infiniband/{}/device/net", root_, device);
    for (const std::string& name : entries(nets)) {
        unsigned index = 0;
        if (parse(first_line(nets + "/" + name + "/dev_port"), index) && index + 1 == port)
            return name;
    }
    return fail(ENOENT, "{} port {} has no network interface here", device, port);
}

Result<RdmaPort> Sysfs::rdma_port_of(const std::string& netdev) const {
    if (netdev.empty() || netdev.find('/') != std::string::npos || netdev.size() > 15)
        return fail(EINVAL, "\"{}\" is not the name of a network interface", netdev);
    for (const std::string& device : rdma_devices()) {
        for (const std::string& text : entries(root_ + "/class/infiniband/" + device + "/ports")) {
            uint8_t port = 0;
            if (parse(text, port) && netdev_of(device, port) == netdev)
                return RdmaPort{device, port};
        }
    }
    if (!exists(root_ + "/class/net/" + netdev))
        return fail(ENODEV, "there is no network interface \"{}\" in this network namespace",
                    netdev);
    return fail(ENOENT,
                "network interface {} has no RDMA device: its NIC cannot do RDMA, or the kernel "
                "module for it (mlx5_ib, mlx4_ib, mana_ib ...) is not loaded",
                netdev);
}

std::string Sysfs::bus_address(const std::string& device) const {
    const std::string link = fmt::format("{}/class/infiniband/{}/device", root_, device);
    return files::base_name(files::link_target(link));
}

int Sysfs::numa_node(const std::string& device) const {
    int node = -1;
    parse(first_line(fmt::format("{}/class/infiniband/{}/device/numa_node", root_, device)), node);
    return node;
}

std::vector<std::string> Sysfs::hw_counter_names(const std::string& device, uint8_t port) const {
    std::vector<std::string> names = entries(port_path(device, port) + "/hw_counters");
    std::erase_if(names, [&](const std::string& name) {
        return name == "lifespan" || // milliseconds for which the kernel reports the same values
               !hw_counter(device, port, name);
    });
    return names;
}

std::vector<Counter> Sysfs::hw_counters(const std::string& device, uint8_t port) const {
    std::vector<Counter> counters;
    for (const std::string& name : hw_counter_names(device, port))
        counters.push_back({name, hw_counter(device, port, name).value_or(0)});
    return counters;
}

Result<uint64_t> Sysfs::hw_counter(const std::string& device, uint8_t port,
                                   const std::string& name) const {
    uint64_t value = 0;
    if (!parse(first_line(port_path(device, port) + "/hw_counters/" + name), value))
        return fail(ENOENT, "{} port {} has no hardware counter {}", device, port, name);
    return value;
}

} // namespace netdev
