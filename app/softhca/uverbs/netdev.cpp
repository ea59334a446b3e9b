// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/netdev.hpp"

#include "app/softhca/control/client.hpp"
#include "app/softhca/uverbs/ethtool.hpp"
#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/small_file.hpp"
#include "app/softhca/uverbs/sysfs_tree.hpp"
#include "app/softhca/uverbs/user_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

constexpr int kMinMtu = 68, kMaxMtu = 9978; // what a ConnectX-5 takes
constexpr uint16_t kDefaultFlags = IFF_UP | IFF_BROADCAST | IFF_MULTICAST;
/// What SIOCSIFFLAGS may change.
constexpr uint16_t kSettableFlags = IFF_UP | IFF_PROMISC | IFF_ALLMULTI | IFF_DEBUG | IFF_NOARP;

std::string_view name_of(const ifreq& ifr) {
    return {ifr.ifr_name, strnlen(ifr.ifr_name, sizeof ifr.ifr_name)};
}

void copy_name(const std::string& name, char* to) {
    std::memset(to, 0, IF_NAMESIZE);
    name.copy(to, IF_NAMESIZE - 1);
}

Port* port_of_ifindex(Runtime& runtime, unsigned ifindex) {
    for (const auto& port : runtime.ports())
        if (!port->netdev.is_tap() && port->netdev.ifindex() == ifindex) return port.get();
    return nullptr;
}

/// The processes whose device may be running. None of them may be waited for with a netdev locked:
/// it may be doing the same.
void tell_others(const Port& port) {
    Runtime* const runtime = Runtime::get();
    if (!runtime) return;
    for (const auto& instance : control::find_instances(runtime->config().runtime_dir))
        if (instance.pid != getpid())
            (void)control::ask(instance, {{"cmd", kNetdevCommand}, {"device", port.config.device}});
}

} // namespace

Netdev::Netdev(Port& port, const std::string& tree_root)
    : port_(port), folder_(tree_root + pci_folder(port.config) + "/net/" + port.config.netdev) {}

bool Netdev::is_tap() const { return port_.config.netdev_tap; }
unsigned Netdev::ifindex() const { return emulated_ifindex(port_.index); }

Netdev::State& Netdev::state() {
    if (state_ && port_.device.load()) return *state_; // others report what they change, see below
    State& fresh = state_.emplace();
    fresh.mac = port_.config.mac;
    unsigned byte[6];
    if (std::sscanf(read_line(folder_ + "/address").c_str(), "%x:%x:%x:%x:%x:%x", &byte[0],
                    &byte[1], &byte[2], &byte[3], &byte[4], &byte[5]) == 6)
        std::copy(std::begin(byte), std::end(byte), fresh.mac.begin());
    const int mtu = std::atoi(read_line(folder_ + "/mtu").c_str());
    fresh.mtu = mtu > 0 ? static_cast<uint16_t>(mtu) : port_.config.mtu;
    const std::string flags = read_line(folder_ + "/flags");
    fresh.flags = flags.empty() ? kDefaultFlags
                                : static_cast<uint16_t>(std::strtoul(flags.c_str(), nullptr, 16));
    return fresh;
}

std::array<uint8_t, 6> Netdev::mac() {
    const std::lock_guard lock(mutex_);
    return state().mac;
}

uint16_t Netdev::mtu() {
    const std::lock_guard lock(mutex_);
    return state().mtu;
}

bool Netdev::is_up() {
    // A TAP that is down does not stop the port: only this program's requests do (see follow()).
    if (is_tap()) return true;
    const std::lock_guard lock(mutex_);
    return state().flags & IFF_UP;
}

uint16_t Netdev::flags() {
    const uint16_t known = state().flags;
    return (known & IFF_UP) && port_.link_up() ? known | IFF_RUNNING : known;
}

int Netdev::set_mtu(int mtu) {
    if (mtu < kMinMtu || mtu > kMaxMtu) return EINVAL;
    save_mtu(static_cast<uint16_t>(mtu));
    write_line(folder_ + "/mtu", std::to_string(mtu));
    return 0;
}

void Netdev::save_mtu(uint16_t mtu) {
    state().mtu = mtu;
    if (core::Device* device = port_.device.load()) device->set_mtu(mtu);
}

int Netdev::set_flags(int flags) {
    State& now = state();
    const bool was_up = now.flags & IFF_UP;
    now.flags = static_cast<uint16_t>((now.flags & ~kSettableFlags) | (flags & kSettableFlags));
    write_line(folder_ + "/flags", fmt::format("{:#x}", now.flags));
    const bool up = now.flags & IFF_UP;
    // As in mlx5_core: a netdev that goes down takes the port's link down.
    core::Device* device = port_.device.load();
    if (device && up != was_up) device->set_link(up);
    return 0;
}

int Netdev::set_mac(const sockaddr& address) {
    std::array<uint8_t, 6> mac;
    std::memcpy(mac.data(), address.sa_data, mac.size());
    if (mac[0] & 1 || mac == std::array<uint8_t, 6>{}) return EADDRNOTAVAIL;
    state().mac = mac;
    if (core::Device* device = port_.device.load()) device->set_mac(mac);
    write_line(folder_ + "/address", mac_text(mac));
    return 0;
}

void Netdev::reread() {
    const std::lock_guard lock(mutex_);
    state_.reset();
    const State& now = state();
    core::Device* const device = port_.device.load();
    if (!device) return;
    device->set_mtu(now.mtu);
    device->set_mac(now.mac);
    device->set_link(now.flags & IFF_UP);
}

std::optional<int> Netdev::ioctl(unsigned long request, ifreq& ifr) {
    if (request == SIOCETHTOOL) return ethtool(port_, ifr.ifr_data);
    if (is_tap()) return std::nullopt;
    const int error = answer(request, ifr);
    const bool changed =
        request == SIOCSIFHWADDR || request == SIOCSIFFLAGS || request == SIOCSIFMTU;
    if (changed && error == 0) tell_others(port_);
    return error;
}

int Netdev::answer(unsigned long request, ifreq& ifr) {
    const std::lock_guard lock(mutex_);
    switch (request) {
    case SIOCGIFINDEX: ifr.ifr_ifindex = static_cast<int>(ifindex()); return 0;
    case SIOCGIFHWADDR:
        ifr.ifr_hwaddr = {};
        ifr.ifr_hwaddr.sa_family = ARPHRD_ETHER;
        std::copy_n(state().mac.begin(), 6, ifr.ifr_hwaddr.sa_data);
        return 0;
    case SIOCSIFHWADDR: return set_mac(ifr.ifr_hwaddr);
    case SIOCGIFFLAGS: ifr.ifr_flags = static_cast<short>(flags()); return 0;
    case SIOCSIFFLAGS: return set_flags(static_cast<uint16_t>(ifr.ifr_flags));
    case SIOCGIFMTU: ifr.ifr_mtu = state().mtu; return 0;
    case SIOCSIFMTU: return set_mtu(ifr.ifr_mtu);
    case SIOCGIFTXQLEN: ifr.ifr_qlen = 1000; return 0;
    case SIOCGIFMETRIC: ifr.ifr_metric = 0; return 0;
    case SIOCADDMULTI:
    case SIOCDELMULTI: return 0; // no kernel behind it that would filter
    case SIOCGIFADDR:
    case SIOCGIFNETMASK:
    case SIOCGIFBRDADDR:
    case SIOCGIFDSTADDR: return EADDRNOTAVAIL; // never has an IP address
    default: return EOPNOTSUPP;
    }
}

void Netdev::follow(unsigned long request, const ifreq& ifr) {
    const std::lock_guard lock(mutex_);
    // The port's own limit follows the TAP even when another process changed it.
    if ((request == SIOCSIFMTU || request == SIOCGIFMTU) && ifr.ifr_mtu >= kMinMtu &&
        ifr.ifr_mtu <= kMaxMtu && ifr.ifr_mtu != state().mtu)
        save_mtu(static_cast<uint16_t>(ifr.ifr_mtu));
    // Only the TAP says whether it is up: anybody can set that. This makes the device look at once.
    if (request == SIOCSIFFLAGS)
        if (core::Device* device = port_.device.load()) device->set_link(true);
}

std::optional<int> netdev_ioctl(unsigned long request, void* argument,
                                int (*handed_on)(int, unsigned long, void*), int fd) {
    Runtime* runtime = Runtime::get();
    if (!runtime || !is_mapped(argument, sizeof(ifreq), true)) return std::nullopt;
    auto& ifr = *static_cast<ifreq*>(argument);
    if (request == SIOCGIFNAME) {
        const Port* port = port_of_ifindex(*runtime, static_cast<unsigned>(ifr.ifr_ifindex));
        if (!port) return std::nullopt;
        copy_name(port->config.netdev, ifr.ifr_name);
        return 0;
    }
    Port* port = runtime->port_of_netdev(name_of(ifr));
    if (!port) return std::nullopt;
    if (const auto answer = port->netdev.ioctl(request, ifr)) return answer;
    if (handed_on(fd, request, argument) < 0) return errno;
    port->netdev.follow(request, ifr);
    return 0;
}

unsigned emulated_name_to_index(const char* name) {
    Runtime* runtime = Runtime::get();
    if (!runtime || !name) return 0;
    const Port* port = runtime->port_of_netdev(name);
    return port && !port->netdev.is_tap() ? port->netdev.ifindex() : 0;
}

bool emulated_index_to_name(unsigned index, char* name) {
    Runtime* runtime = Runtime::get();
    const Port* port = runtime ? port_of_ifindex(*runtime, index) : nullptr;
    if (!port || !name) return false;
    copy_name(port->config.netdev, name);
    return true;
}

} // namespace softhca::uverbs
