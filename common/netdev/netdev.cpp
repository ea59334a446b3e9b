// SPDX-License-Identifier: BSD-3-Clause
#include "common/netdev/netdev.hpp"

#include "common/netdev/ethtool.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace netdev {

/// Interface ioctls only need an open socket, of whatever family.
class ControlSocket {
  public:
    ControlSocket()
        : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)), error_(fd_ < 0 ? errno : 0) {}
    ~ControlSocket() {
        if (fd_ >= 0) close(fd_);
    }
    ControlSocket(const ControlSocket&) = delete;
    ControlSocket& operator=(const ControlSocket&) = delete;
    /// Errno: 0 if the kernel did what was requested.
    [[nodiscard]] int request(unsigned long code, ifreq& request) const {
        if (error_ != 0) return error_;
        return ioctl(fd_, code, &request) == 0 ? 0 : errno;
    }

  private:
    int fd_;
    int error_; ///< why there is no socket
};

namespace {

const char* hint(int error) {
    switch (error) {
    case EPERM: return ": CAP_NET_ADMIN is needed";
    case ENODEV: return ": no such interface in this network namespace";
    case EINVAL: return ": the interface does not take this value";
    case EOPNOTSUPP: return ": the interface's driver or device cannot";
    default: return "";
    }
}

} // namespace

Netdev::Netdev(std::string name)
    : name_(std::move(name)),
      socket_(name_.empty() ? nullptr : std::make_shared<const ControlSocket>()) {}

Result<void> Netdev::request(unsigned long code, ifreq& request, const char* what) const {
    if (!present())
        return fail(ENODEV, "cannot {}: the RDMA port has no network interface here", what);
    request.ifr_name[name_.copy(request.ifr_name, IFNAMSIZ - 1)] = '\0';
    if (const int error = socket_->request(code, request))
        return fail(error, "{}: cannot {}: {}{}", name_, what, strerror(error), hint(error));
    return {};
}

Result<void> Netdev::ethtool(void* command, const char* what) const {
    ifreq ifr{};
    ifr.ifr_data = static_cast<char*>(command);
    return request(SIOCETHTOOL, ifr, what);
}

Result<unsigned> Netdev::index() const {
    ifreq ifr{};
    return request(SIOCGIFINDEX, ifr, "get the interface index").map([&] {
        return static_cast<unsigned>(ifr.ifr_ifindex);
    });
}

Result<MacAddress> Netdev::mac() const {
    ifreq ifr{};
    return request(SIOCGIFHWADDR, ifr, "get the MAC address").map([&] {
        MacAddress mac;
        std::memcpy(mac.data(), ifr.ifr_hwaddr.sa_data, mac.size());
        return mac;
    });
}

Result<uint32_t> Netdev::mtu() const {
    ifreq ifr{};
    return request(SIOCGIFMTU, ifr, "get the MTU").map([&] {
        return static_cast<uint32_t>(ifr.ifr_mtu);
    });
}

Result<void> Netdev::set_mtu(uint32_t mtu) const {
    ifreq ifr{};
    ifr.ifr_mtu = static_cast<int>(mtu);
    return request(SIOCSIFMTU, ifr, fmt::format("set the MTU to {}", mtu).c_str());
}

Result<unsigned> Netdev::flags() const {
    ifreq ifr{};
    return request(SIOCGIFFLAGS, ifr, "get the flags").map([&] {
        return static_cast<unsigned>(static_cast<unsigned short>(ifr.ifr_flags));
    });
}

Result<void> Netdev::set_up(bool up) const {
    const Result<unsigned> now = flags();
    if (!now) return tl::unexpected(now.error());
    const unsigned wanted = up ? *now | IFF_UP : *now & ~static_cast<unsigned>(IFF_UP);
    if (wanted == *now) return {};
    ifreq ifr{};
    ifr.ifr_flags = static_cast<short>(wanted);
    return request(SIOCSIFFLAGS, ifr, up ? "set the link up" : "set the link down");
}

Result<Link> Netdev::link() const {
    const Result<unsigned> now = flags();
    if (!now) return tl::unexpected(now.error());
    Link link;
    link.up = (*now & IFF_UP) != 0 && (*now & IFF_RUNNING) != 0;
    Result<LinkSettings> settings = link_settings();
    if (!settings) return link; // no ethtool: the speed stays unknown
    const ethtool_link_settings& told = *settings->get();
    if (told.speed != static_cast<uint32_t>(SPEED_UNKNOWN)) link.speed_mbps = told.speed;
    link.full_duplex = told.duplex != DUPLEX_HALF;
    link.autoneg = told.autoneg == AUTONEG_ENABLE;
    return link;
}

} // namespace netdev
