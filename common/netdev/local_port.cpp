// SPDX-License-Identifier: BSD-3-Clause
#include "common/netdev/local_port.hpp"

#include "common/processes.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>

namespace netdev {

namespace {

constexpr const char* kNamespace = "/proc/thread-self/ns/net";

IpAddress address_of(const sockaddr* from) {
    IpAddress address;
    if (from->sa_family == AF_INET6) {
        sockaddr_in6 v6;
        std::memcpy(&v6, from, sizeof v6);
        address.v6 = true;
        std::memcpy(address.bytes.data(), &v6.sin6_addr, 16);
        address.scope = v6.sin6_scope_id;
    } else {
        sockaddr_in v4;
        std::memcpy(&v4, from, sizeof v4);
        std::memcpy(address.bytes.data(), &v4.sin_addr, 4);
    }
    return address;
}

/// Drops all that a socket would receive.
int receive_nothing(int fd) {
    sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &drop};
    return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

int bind_to(int fd, const LocalPort& port) {
    if (!port.address.v6) {
        sockaddr_in v4{};
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port.number);
        std::memcpy(&v4.sin_addr, port.address.bytes.data(), 4);
        return ::bind(fd, reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
    }
    const int one = 1;
    if (::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) != 0) return -1;
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port.number);
    v6.sin6_scope_id = port.address.scope;
    std::memcpy(&v6.sin6_addr, port.address.bytes.data(), 16);
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&v6), sizeof v6);
}

/// A line of /proc/net/tcp and its kind.
struct Socket {
    IpAddress address;
    uint16_t number = 0;
    bool closing = false;
    unsigned uid = 0;
    uint64_t inode = 0; ///< 0: of no process
};

/// "0100007F:0035": words in this machine's byte order.
bool parse_local(const std::string& text, bool v6, Socket& socket) {
    const size_t digits = v6 ? 32 : 8;
    if (text.size() < digits + 2) return false;
    socket.address.v6 = v6;
    for (size_t word = 0; word < digits / 8; ++word) {
        const auto value = static_cast<uint32_t>(std::stoul(text.substr(8 * word, 8), nullptr, 16));
        std::memcpy(&socket.address.bytes[4 * word], &value, sizeof value);
    }
    socket.number = static_cast<uint16_t>(std::stoul(text.substr(digits + 1), nullptr, 16));
    return true;
}

std::vector<Socket> sockets(bool tcp, bool v6) {
    std::vector<Socket> list;
    std::ifstream file(
        fmt::format("/proc/thread-self/net/{}{}", tcp ? "tcp" : "udp", v6 ? "6" : ""));
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string number, local, remote, state, queues, timer, resent, timeout;
        Socket socket;
        words >> number >> local >> remote >> state >> queues >> timer >> resent >> socket.uid >>
            timeout >> socket.inode;
        constexpr const char* kTimeWait = "06";
        socket.closing = tcp && state == kTimeWait;
        if (words && parse_local(local, v6, socket)) list.push_back(socket);
    }
    return list;
}

bool conflict(const LocalPort& port, const Socket& socket) {
    if (socket.number != port.number) return false;
    if (socket.address.any() || port.address.any()) return true;
    const auto& has = socket.address.bytes;
    const auto& wants = port.address.bytes;
    if (socket.address.v6 == port.address.v6) return has == wants;
    // IPv4 on an IPv6 socket: ::ffff:a.b.c.d.
    return socket.address.v6 && std::equal(has.begin() + 12, has.end(), wants.begin());
}

} // namespace

std::string IpAddress::text() const {
    char buffer[INET6_ADDRSTRLEN] = "";
    ::inet_ntop(v6 ? AF_INET6 : AF_INET, bytes.data(), buffer, sizeof buffer);
    return buffer;
}

std::string LocalPort::text() const {
    const std::string of =
        address.any() ? fmt::format("all IPv{} addresses", address.v6 ? 6 : 4) : address.text();
    return fmt::format("{} port {} of {}", tcp ? "TCP" : "UDP", number, of);
}

Result<std::vector<IpAddress>> local_addresses(bool v6) {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0)
        return fail(errno, "cannot list the addresses of this host: {}", std::strerror(errno));
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
    std::vector<IpAddress> list;
    for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next)
        if (each->ifa_addr != nullptr && (each->ifa_flags & IFF_LOOPBACK) == 0 &&
            each->ifa_addr->sa_family == (v6 ? AF_INET6 : AF_INET))
            list.push_back(address_of(each->ifa_addr));
    return list;
}

Result<Fd> reserve(const LocalPort& port) {
    const int type = (port.tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC;
    Fd fd(::socket(port.address.v6 ? AF_INET6 : AF_INET, type, 0));
    if (!fd || receive_nothing(fd.get()) != 0 || bind_to(fd.get(), port) != 0)
        return fail(errno, "{} cannot be reserved: {}{}", port.text(), std::strerror(errno),
                    errno == EACCES ? ": ports below ip_unprivileged_port_start need "
                                      "CAP_NET_BIND_SERVICE"
                                    : "");
    return fd;
}

std::string holder_of(const LocalPort& port) {
    std::string found = "a socket that the kernel does not list: bound, and not listening";
    for (const bool v6 : {false, true}) {
        if (!v6 && port.address.v6) continue;
        for (const Socket& socket : sockets(port.tcp, v6)) {
            if (!conflict(port, socket)) continue;
            if (socket.inode == 0) {
                found = socket.closing ? "a connection that is closing (TIME_WAIT)"
                                       : "the kernel itself, as for a tunnel interface";
                continue;
            }
            const auto users = processes::with_open(fmt::format("socket:[{}]", socket.inode));
            if (!users.empty()) return users.front().text();
            found = fmt::format("a process of user {} that is not visible from here", socket.uid);
        }
    }
    return found;
}

Result<Namespace> Namespace::of_this_thread() {
    Namespace made;
    struct stat status {};
    made.fd_ = Fd(::open(kNamespace, O_RDONLY | O_CLOEXEC));
    if (!made.fd_ || ::fstat(made.fd_.get(), &status) != 0)
        return fail(errno, "cannot open {}: {}", kNamespace, std::strerror(errno));
    made.id_ = status.st_ino;
    return made;
}

Result<Namespace::Visit> Namespace::enter() const {
    auto here = of_this_thread();
    if (!here) return tl::unexpected(here.error());
    if (here->id_ == id_) return Visit();
    if (::setns(fd_.get(), CLONE_NEWNET) != 0)
        return fail(errno,
                    "the calling thread is in another network namespace than the one in which the "
                    "port was probed, and cannot enter that: {}",
                    std::strerror(errno));
    return Visit(std::move(here->fd_));
}

Namespace::Visit::~Visit() {
    if (home_ && ::setns(home_.get(), CLONE_NEWNET) != 0) std::abort();
}

} // namespace netdev
