// SPDX-License-Identifier: BSD-3-Clause
// What the kernel has made of a NIC: from the PCI function to the network interface.
#include "common/diagnosis/links.hpp"

#include <algorithm>
#include <span>

namespace diagnosis::links {
namespace {

/// Kernel modules for the functions of a vendor: the core, which binds to them, and its RDMA part.
struct Family {
    std::string_view vendor, core, rdma;
};
constexpr Family kFamilies[] = {{"0x15b3", "mlx5_core", "mlx5_ib"}, {"0x1414", "mana", "mana_ib"}};
constexpr const Family& kMlx5 = kFamilies[0];

/// A PCI function that an RDMA driver could have, as sysfs shows it.
struct Function {
    std::string address;
    std::string driver; ///< empty: it has none
    const Family* family;
};

const Family* family_of(const Host& host, const std::string& folder) {
    if (!host.line(folder + "/class").starts_with("0x02")) return nullptr; // a network controller
    const std::string vendor = host.line(folder + "/vendor");
    const auto* const found = std::ranges::find(kFamilies, vendor, &Family::vendor);
    return found != std::end(kFamilies) ? found : nullptr;
}

std::vector<Function> functions(const Host& host) {
    std::vector<Function> list;
    for (const std::string& address : host.list("/sys/bus/pci/devices")) {
        const std::string folder = "/sys/bus/pci/devices/" + address;
        if (const Family* const family = family_of(host, folder))
            list.push_back({address, host.link_name(folder + "/driver"), family});
    }
    return list;
}

bool is_user_space(const std::string& driver) {
    return driver.starts_with("vfio") || driver.starts_with("uio") || driver == "igb_uio";
}

std::string list_of(const std::vector<std::string>& names) {
    return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// "0000:ca:00.0 (mlx5_core), 0000:ca:00.1 (no driver)".
std::string text_of(std::span<const Function> functions) {
    std::vector<std::string> words;
    for (const Function& each : functions)
        words.push_back(
            fmt::format("{} ({})", each.address, each.driver.empty() ? "no driver" : each.driver));
    return list_of(words);
}

/// Where a known device is: "0000:ca:00.0, driver mlx5_core, virtual function of 0000:ca:00.1".
std::string place_of(const Case& subject, const std::string& device) {
    const std::string address = subject.host.sysfs().bus_address(device);
    if (address.empty()) return device + " is made in software: it has no PCI function";
    std::string text = fmt::format("{} is on {}", device, address);
    const std::string folder = fmt::format("/sys/class/infiniband/{}/device", device);
    const std::string driver = subject.host.link_name(folder + "/driver");
    if (!driver.empty()) text += ", driver " + driver;
    const std::string whole = subject.host.link_name(folder + "/physfn");
    if (!whole.empty()) text += ", virtual function of " + whole;
    if (address.find(".sf.") != address.npos) text += ", a scalable function (SF)";
    return text;
}

/// Whether the requested device is already known to exist.
bool has_answer(const Case& subject) {
    if (!subject.device.empty()) return subject.known_to_kernel();
    return !subject.host.sysfs().rdma_devices().empty();
}

/// Why a network interface has no RDMA device of its own although it looks as if it should.
std::optional<Verdict> bonded(const Case& subject, const std::string& error) {
    const Host& host = subject.host;
    const std::string folder = "/sys/class/net/" + subject.iface;
    const std::string all = list_of(host.sysfs().rdma_devices());
    const std::string evidence = fmt::format("{}; RDMA devices: {}", error, all);
    if (host.exists(folder + "/bonding")) {
        const std::string slaves = host.line(folder + "/bonding/slaves");
        return Verdict::broken(
            evidence,
            fmt::format(
                "{} is a bond of {}, and the kernel makes one RDMA device of a bond only of "
                "the two ports of one NIC, in mode active-backup, balance-xor or 802.3ad",
                subject.iface, slaves),
            fmt::format("give each of {} to the driver, and bond them with DPDK's net_bonding: "
                        "ip link set DEV nomaster",
                        slaves));
    }
    const std::string master = host.link_name(folder + "/master");
    if (!master.empty() && host.exists("/sys/class/net/" + master + "/bonding"))
        return Verdict::broken(
            evidence,
            fmt::format("{} is a slave of {}: the ports of a bonded NIC have one RDMA device, that "
                        "of the bond",
                        subject.iface, master),
            fmt::format("use iface={}, or: ip link set {} nomaster", master, subject.iface));
    return std::nullopt;
}

Verdict no_device_for_iface(const Case& subject, const Error& error) {
    if (auto verdict = bonded(subject, error.what)) return *verdict;
    const std::string folder = "/sys/class/net/" + subject.iface;
    const bool present = subject.host.exists(folder);
    const Family* const family = family_of(subject.host, folder + "/device");
    return Verdict::broken(
        fmt::format("RDMA devices: {}", list_of(subject.host.sysfs().rdma_devices())), error.what,
        present ? fmt::format("modprobe {}, or name the interface of an RDMA NIC (rdma link)",
                              (family != nullptr ? *family : kMlx5).rdma)
                : "ip netns list shows other namespaces: start the program where the interface is, "
                  "or: ip link set DEV netns NAME");
}

Verdict without_driver(const Host& host, const Function& function, const std::string& evidence) {
    const std::string& address = function.address;
    const std::string cause = fmt::format("no kernel driver has {}", address);
    const std::string wanted =
        host.line(fmt::format("/sys/bus/pci/devices/{}/driver_override", address));
    if (!wanted.empty() && wanted != "(null)" && wanted != function.family->core)
        return Verdict::broken(
            evidence, fmt::format("{}: it is kept for {} (driver_override)", cause, wanted),
            fmt::format("echo > /sys/bus/pci/devices/{0}/driver_override; "
                        "echo {0} > /sys/bus/pci/drivers_probe",
                        address));
    const std::string driver = fmt::format("/sys/bus/pci/drivers/{}", function.family->core);
    return Verdict::broken(evidence, cause,
                           host.exists(driver) ? fmt::format("echo {} > {}/bind", address, driver)
                                               : fmt::format("modprobe {}", function.family->core));
}

/// The verdict if there is no RDMA device at all.
Verdict no_devices(const Case& subject) {
    const std::vector<Function> all = functions(subject.host);
    const std::string what = fmt::format("there is no RDMA device{}{}",
                                         subject.device.empty() ? "" : " " + subject.device,
                                         subject.device.empty() ? "" : ", nor any other");
    const auto unserved = std::ranges::find_if(all, [&](const Function& each) {
        return !subject.host.exists(fmt::format("/sys/module/{}", each.family->rdma));
    });
    if (unserved == all.end())
        return Verdict::broken(
            fmt::format("/sys/class/infiniband is empty; NICs: {}", text_of(all)),
            what +
                ": it is in another network namespace (rdma system: netns exclusive), or RDMA is "
                "turned off for the NIC",
            "rdma system show; where the device is: rdma dev set DEV netns NAME; devlink dev param "
            "show (enable_rdma, enable_roce)");
    const std::string_view module = unserved->family->rdma;
    return Verdict::broken(fmt::format("/sys/class/infiniband is empty; NICs: {}", text_of(all)),
                           fmt::format("{}: the kernel module {} is not loaded", what, module),
                           fmt::format("modprobe {}", module));
}

} // namespace

Verdict nic(Case& subject) {
    if (has_answer(subject))
        return Verdict::ok(place_of(subject, subject.device.empty()
                                                 ? subject.host.sysfs().rdma_devices().front()
                                                 : subject.device));
    const std::vector<Function> all = functions(subject.host);
    for (const Function& each : all) {
        if (is_user_space(each.driver))
            return Verdict::broken(
                text_of(all),
                fmt::format("{} is bound to {}: the kernel's RDMA driver must have the NIC, for "
                            "the driver goes through it",
                            each.address, each.driver),
                fmt::format("dpdk-devbind.py --bind={} {}", each.family->core, each.address));
        if (each.driver.empty()) return without_driver(subject.host, each, text_of(all));
    }
    if (all.empty() && subject.host.sysfs().rdma_devices().empty() &&
        subject.usable_devices().empty())
        return Verdict::broken(
            "no PCI function of a known RDMA NIC (vendor 15b3 or 1414), no RDMA device",
            "this machine, or what a container or VM is shown of it, has no RDMA NIC",
            "pass a NIC or a virtual function of one through; to try and test without one, see "
            "\"Trying it without a NIC\" in the driver's guide");
    return Verdict::ok(text_of(all));
}

Verdict uverbs_module(Case& subject) {
    constexpr const char* kAbi = "/sys/class/infiniband_verbs/abi_version";
    const std::string abi = subject.host.line(kAbi);
    if (!abi.empty()) return Verdict::ok("uverbs ABI " + abi);
    if (!subject.usable_devices().empty()) return Verdict::ok("libibverbs lists devices");
    return Verdict::broken(
        fmt::format("{} is missing", kAbi), "the kernel module ib_uverbs is not loaded",
        subject.host.in_container() ? "on the host: modprobe ib_uverbs" : "modprobe ib_uverbs");
}

Verdict rdma_device(Case& subject) {
    const std::vector<std::string> known = subject.host.sysfs().rdma_devices();
    if (subject.device.empty() && !subject.iface.empty()) {
        const Result<netdev::RdmaPort> found = subject.host.sysfs().rdma_port_of(subject.iface);
        if (!found) return no_device_for_iface(subject, found.error());
        subject.device = found->device;
        subject.port = found->port;
    }
    std::vector<std::string> all = known.empty() ? subject.usable_devices() : known;
    if (all.empty()) return no_devices(subject);
    if (subject.device.empty()) subject.device = all.front();
    if (std::ranges::find(all, subject.device) == all.end())
        return Verdict::broken(
            fmt::format("RDMA devices: {}", list_of(all)),
            fmt::format("there is no RDMA device {}", subject.device),
            fmt::format("device={}; ibv_devices and rdma link list them", all[0]));
    std::erase(all, subject.device);
    return Verdict::ok(all.empty()
                           ? subject.device
                           : fmt::format("{}; there are also {}", subject.device, list_of(all)));
}

Verdict netdev(Case& subject) {
    const Result<std::string> found = subject.host.sysfs().netdev_of(subject.device, subject.port);
    if (found) {
        subject.netdev = *found;
        return Verdict::ok(*found);
    }
    return Verdict::warning(
        found.error().what, "the interface of the port is in another network namespace",
        fmt::format("a port works, with a random MAC address and without setting MTU and link; "
                    "else: ip link set DEV netns {}",
                    subject.host.in_container() ? "CONTAINER" : "PID"));
}

Verdict bond(Case& subject) {
    if (subject.netdev.empty()) return Verdict::unknown("no interface in sight");
    const std::string master =
        subject.host.link_name("/sys/class/net/" + subject.netdev + "/master");
    if (master.empty()) return Verdict::ok(subject.netdev + " is part of no bond or bridge");
    const std::string evidence = fmt::format("{} belongs to {}", subject.netdev, master);
    if (!subject.host.exists("/sys/class/net/" + master + "/bonding")) return Verdict::ok(evidence);
    return Verdict::warning(evidence,
                            fmt::format("the bond {} decides which port carries what the kernel "
                                        "sends, and a driver on {} sees the packets of one port",
                                        master, subject.device),
                            fmt::format("take it out (ip link set {} nomaster), or use the RDMA "
                                        "device of the bond (mlx5_bond_0) for both ports",
                                        subject.netdev));
}

} // namespace diagnosis::links
