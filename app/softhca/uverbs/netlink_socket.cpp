// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/netlink_socket.hpp"

#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/user_memory.hpp"
#include "common/fd.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <linux/netlink.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace softhca::uverbs {
namespace {

constexpr size_t kMaxRequest = 212992 - 32; // net.core.wmem_default, less what a kernel keeps

/// Returns an address as getsockname(2) does: truncated to the available room.
Errno give_name(const sockaddr_nl& name, sockaddr* out, socklen_t* length) {
    if (!is_mapped(length, sizeof *length, true)) return EFAULT;
    const size_t room = std::min<size_t>(*length, sizeof name);
    if (!is_mapped(out, room, true)) return EFAULT;
    std::memcpy(out, &name, room);
    *length = sizeof name;
    return 0;
}

/// The number of a socket that requests none: the process's, if that is free, else a negative one.
uint32_t next_port() {
    static std::atomic<uint32_t> sockets{0};
    constexpr uint32_t kFirstNegative = ~uint32_t{4096};
    const uint32_t before = sockets.fetch_add(1);
    return before == 0 ? static_cast<uint32_t>(getpid()) : kFirstNegative - before;
}

Errno check_destination(const msghdr& message) {
    if (!message.msg_name || message.msg_namelen == 0) return 0;
    sockaddr_nl to{};
    if (message.msg_namelen < sizeof to) return EINVAL;
    if (!is_mapped(message.msg_name, sizeof to)) return EFAULT;
    std::memcpy(&to, message.msg_name, sizeof to);
    if (to.nl_family != AF_NETLINK) return EINVAL;
    return to.nl_pid || to.nl_groups ? ECONNREFUSED : 0; // another program's socket
}

Errno gather(const msghdr& message, std::string& out) {
    if (message.msg_iovlen > IOV_MAX) return EMSGSIZE;
    if (!is_mapped(message.msg_iov, message.msg_iovlen * sizeof(iovec))) return EFAULT;
    for (size_t i = 0; i < message.msg_iovlen; i++) {
        const iovec& part = message.msg_iov[i];
        if (part.iov_len > kMaxRequest - out.size()) return EMSGSIZE;
        if (part.iov_len && !is_mapped(part.iov_base, part.iov_len)) return EFAULT;
        out.append(static_cast<const char*>(part.iov_base), part.iov_len);
    }
    return 0;
}

} // namespace

int NetlinkSocket::open_descriptor(int type) {
    const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (kind != SOCK_RAW && kind != SOCK_DGRAM) {
        errno = ESOCKTNOSUPPORT;
        return -1;
    }
    Fd fd(::socket(AF_UNIX, SOCK_DGRAM | (type & (SOCK_NONBLOCK | SOCK_CLOEXEC)), 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t length = sizeof address.sun_family; // no name: the kernel finds one
    if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) < 0) return -1;
    length = sizeof address;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) < 0 ||
        ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) < 0)
        return -1;
    return fd.release();
}

void NetlinkSocket::bind_automatically() {
    if (!client_.port) client_.port = next_port();
}

Errno NetlinkSocket::bind(const sockaddr* address, socklen_t length) {
    sockaddr_nl wanted{};
    if (length < sizeof wanted) return EINVAL;
    if (!is_mapped(address, sizeof wanted)) return EFAULT;
    std::memcpy(&wanted, address, sizeof wanted);
    if (wanted.nl_family != AF_NETLINK) return EINVAL;
    const std::lock_guard lock(mutex_);
    if (client_.port && wanted.nl_pid != client_.port) return EINVAL;
    client_.port = wanted.nl_pid;
    bind_automatically(); // no messages to groups: no device comes or goes
    return 0;
}

Errno NetlinkSocket::name(sockaddr* out, socklen_t* length) {
    const std::lock_guard lock(mutex_);
    sockaddr_nl mine{};
    mine.nl_family = AF_NETLINK;
    mine.nl_pid = client_.port;
    return give_name(mine, out, length);
}

Errno NetlinkSocket::set_option(int option, const void* value, socklen_t length) {
    int on = 0;
    if (length < sizeof on) return EINVAL;
    if (!is_mapped(value, sizeof on)) return EFAULT;
    std::memcpy(&on, value, sizeof on);
    const std::lock_guard lock(mutex_);
    switch (option) {
    case NETLINK_CAP_ACK: client_.cap_ack = on; return 0;
    case NETLINK_EXT_ACK: client_.ext_ack = on; return 0;
    case NETLINK_ADD_MEMBERSHIP:
    case NETLINK_DROP_MEMBERSHIP:
    case NETLINK_PKTINFO:
    case NETLINK_BROADCAST_ERROR:
    case NETLINK_NO_ENOBUFS:
    case NETLINK_GET_STRICT_CHK: return 0; // of no consequence to these requests
    default: return ENOPROTOOPT;
    }
}

Errno NetlinkSocket::ask(int fd, const msghdr& message) {
    if (const Errno error = check_destination(message)) return error;
    std::string request;
    if (const Errno error = gather(message, request)) return error;
    if (request.empty()) return ENODATA;
    Runtime* runtime = Runtime::get();
    if (!runtime) return ENODEV;
    const std::lock_guard lock(mutex_);
    bind_automatically();
    for (std::string& answer : answer_nldev(*runtime, request, client_))
        answers_.push_back(std::move(answer));
    post(fd);
    return 0;
}

void NetlinkSocket::go_on(int fd) {
    const int saved = errno;
    const std::lock_guard lock(mutex_);
    post(fd);
    errno = saved;
}

void NetlinkSocket::post(int fd) {
    // The system call itself, as sending on this descriptor means a request.
    while (!answers_.empty()) {
        const std::string& next = answers_.front();
        const long sent = syscall(SYS_sendto, fd, next.data(), next.size(),
                                  MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0);
        if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) return;
        answers_.pop_front();
    }
}

Errno NetlinkSocket::name_kernel(sockaddr* out, socklen_t* length) {
    sockaddr_nl kernel{};
    kernel.nl_family = AF_NETLINK;
    return out ? give_name(kernel, out, length) : 0;
}

} // namespace softhca::uverbs
