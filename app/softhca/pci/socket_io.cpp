// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/socket_io.hpp"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace softhca::pci {
namespace {

void take_descriptors(msghdr& message, std::vector<Fd>& fds) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int number;
            std::memcpy(&number, CMSG_DATA(part) + i * sizeof number, sizeof number);
            Fd fd(number);
            if (fds.size() < kMaxMessageFds) fds.push_back(std::move(fd));
        }
    }
}

} // namespace

Result<bool> receive_exactly(int socket, void* to, size_t bytes, std::vector<Fd>& fds) {
    auto* at = static_cast<std::byte*>(to);
    while (bytes != 0) {
        iovec piece{at, bytes};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)];
        msghdr message{};
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0 || (got < 0 && errno == ECONNRESET)) return false;
        if (got < 0) return fail(errno, "QEMU's socket: {}", std::strerror(errno));
        take_descriptors(message, fds);
        at += got;
        bytes -= static_cast<size_t>(got);
    }
    return true;
}

} // namespace softhca::pci
