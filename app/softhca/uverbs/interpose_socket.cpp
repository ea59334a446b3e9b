// SPDX-License-Identifier: BSD-3-Clause
// Continues interpose.cpp: sockets of the kernel's RDMA netlink family. Requests on them are
// answered here, whether the machine's kernel has this family or not.
//
// Waiting and reading (poll, read …) need no help; no program that we know of uses sendmmsg or the
// write family on netlink sockets.
#undef _FORTIFY_SOURCE

#include "app/softhca/uverbs/fd_table.hpp"
#include "app/softhca/uverbs/netlink_socket.hpp"
#include "app/softhca/uverbs/original.hpp"
#include "app/softhca/uverbs/paths.hpp"
#include "app/softhca/uverbs/runtime.hpp"
#include "app/softhca/uverbs/user_memory.hpp"

#include <algorithm>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace softhca::uverbs;

namespace original {
constinit Original<int(int, int, int)> socket{"socket"};
constinit Original<int(int, const sockaddr*, socklen_t)> bind{"bind"};
constinit Original<int(int, sockaddr*, socklen_t*)> getsockname{"getsockname"};
constinit Original<int(int, int, int, const void*, socklen_t)> setsockopt{"setsockopt"};
constinit Original<ssize_t(int, const void*, size_t, int)> send{"send"};
constinit Original<ssize_t(int, const void*, size_t, int, const sockaddr*, socklen_t)> sendto{
    "sendto"};
constinit Original<ssize_t(int, const msghdr*, int)> sendmsg{"sendmsg"};
constinit Original<ssize_t(int, void*, size_t, int)> recv{"recv"};
constinit Original<ssize_t(int, void*, size_t, int, sockaddr*, socklen_t*)> recvfrom{"recvfrom"};
constinit Original<ssize_t(int, msghdr*, int)> recvmsg{"recvmsg"};
} // namespace original

__attribute__((constructor)) void prepare() {
    const auto look_up = [](auto&... functions) { (functions.get(), ...); };
    look_up(original::socket, original::bind, original::getsockname, original::setsockopt,
            original::send, original::sendto, original::sendmsg, original::recv, original::recvfrom,
            original::recvmsg);
}

int result_of(Errno error) { return error ? fail_with(error) : 0; }

ssize_t ask(NetlinkSocket& netlink, int fd, const msghdr& message) {
    const Errno error = netlink.ask(fd, message);
    if (error) return fail_with(error);
    ssize_t length = 0;
    for (size_t i = 0; i < message.msg_iovlen; i++)
        length += static_cast<ssize_t>(message.msg_iov[i].iov_len);
    return length;
}

ssize_t ask(NetlinkSocket& netlink, int fd, const void* data, size_t length, const sockaddr* to,
            socklen_t to_length) {
    iovec part{const_cast<void*>(data), length};
    msghdr message{};
    message.msg_name = const_cast<sockaddr*>(to);
    message.msg_namelen = to_length;
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    return ask(netlink, fd, message);
}

int open_netlink(int type) {
    const int fd = NetlinkSocket::open_descriptor(type);
    if (fd < 0 || fd_table::insert(fd, std::make_shared<NetlinkSocket>())) return fd;
    close(fd);
    return fail_with(EMFILE);
}

} // namespace

extern "C" {

SOFTHCA_EXPORT int socket(int family, int type, int protocol) noexcept {
    if (family == AF_NETLINK && protocol == NETLINK_RDMA && *runtime_folder())
        return Runtime::get() ? open_netlink(type) : fail_with(EPROTONOSUPPORT);
    return original::socket(family, type, protocol);
}

SOFTHCA_EXPORT int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
    if (const auto netlink = fd_table::find_as<NetlinkSocket>(fd))
        return result_of(netlink->bind(address, length));
    return original::bind(fd, address, length);
}

SOFTHCA_EXPORT int getsockname(int fd, sockaddr* out, socklen_t* length) noexcept {
    if (const auto netlink = fd_table::find_as<NetlinkSocket>(fd))
        return result_of(netlink->name(out, length));
    return original::getsockname(fd, out, length);
}

SOFTHCA_EXPORT int setsockopt(int fd, int level, int option, const void* value,
                              socklen_t length) noexcept {
    if (level == SOL_NETLINK)
        if (const auto netlink = fd_table::find_as<NetlinkSocket>(fd))
            return result_of(netlink->set_option(option, value, length));
    return original::setsockopt(fd, level, option, value, length);
}

SOFTHCA_EXPORT ssize_t send(int fd, const void* data, size_t length, int flags) {
    if (const auto netlink = fd_table::find_as<NetlinkSocket>(fd))
        return ask(*netlink, fd, data, length, nullptr, 0);
    return original::send(fd, data, length, flags);
}
SOFTHCA_EXPORT ssize_t sendto(int fd, const void* data, size_t length, int flags,
                              const sockaddr* to, socklen_t to_length) {
    if (const auto netlink = fd_table::find_as<NetlinkSocket>(fd))
        return ask(*netlink, fd, data, length, to, to_length);
    return original::sendto(fd, data, length, flags, to, to_length);
}
SOFTHCA_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
    if (const auto netlink = fd_table::find_as<NetlinkSocket>(fd))
        return is_mapped(message, sizeof *message) ? ask(*netlink, fd, *message)
                                                   : fail_with(EFAULT);
    return original::sendmsg(fd, message, flags);
}

SOFTHCA_EXPORT ssize_t recv(int fd, void* data, size_t length, int flags) {
    const ssize_t got = original::recv(fd, data, length, flags);
    if (got >= 0)
        if (const auto netlink = fd_table::find_as<NetlinkSocket>(fd)) netlink->go_on(fd);
    return got;
}
SOFTHCA_EXPORT ssize_t recvfrom(int fd, void* data, size_t length, int flags, sockaddr* from,
                                socklen_t* from_length) {
    const auto netlink = fd_table::find_as<NetlinkSocket>(fd);
    if (!netlink) return original::recvfrom(fd, data, length, flags, from, from_length);
    const ssize_t got = original::recvfrom(fd, data, length, flags, nullptr, nullptr);
    if (got < 0) return got;
    const Errno error = NetlinkSocket::name_kernel(from, from_length);
    netlink->go_on(fd);
    return error ? fail_with(error) : got;
}
// With _FORTIFY_SOURCE, calls whose buffer may be too small become these.
SOFTHCA_EXPORT ssize_t __recv_chk(int fd, void* data, size_t length, size_t room, int flags) {
    return recv(fd, data, std::min(length, room), flags);
}
SOFTHCA_EXPORT ssize_t __recvfrom_chk(int fd, void* data, size_t length, size_t room, int flags,
                                      sockaddr* from, socklen_t* from_length) {
    return recvfrom(fd, data, std::min(length, room), flags, from, from_length);
}
SOFTHCA_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
    const auto netlink = fd_table::find_as<NetlinkSocket>(fd);
    if (!netlink || !is_mapped(message, sizeof *message, true))
        return original::recvmsg(fd, message, flags);
    const socklen_t room = message->msg_namelen;
    const ssize_t got = original::recvmsg(fd, message, flags);
    if (got < 0) return got;
    message->msg_namelen = room;
    const Errno error = NetlinkSocket::name_kernel(static_cast<sockaddr*>(message->msg_name),
                                                   &message->msg_namelen);
    netlink->go_on(fd);
    return error ? fail_with(error) : got;
}

} // extern "C"
