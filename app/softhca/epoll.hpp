// SPDX-License-Identifier: BSD-3-Clause
// epoll(7) and poll(2) through direct system calls. The processes that this code runs in may
// contain other functions of these names: libvma has some, whose epoll knows only its own
// descriptors, and whose poll works on the program's sockets and does not wait for less than a
// millisecond.
#pragma once

#include <ctime>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softhca {

/// Each behaves like the libc function: -1 and errno if it fails.
inline int create_epoll() { return static_cast<int>(syscall(SYS_epoll_create1, EPOLL_CLOEXEC)); }
inline int control_epoll(int epoll, int operation, int fd, epoll_event& event) {
    return static_cast<int>(syscall(SYS_epoll_ctl, epoll, operation, fd, &event));
}
/// One event, or 0 when there was none within that many milliseconds (-1: no timeout).
inline int wait_epoll(int epoll, epoll_event& event, int timeout_ms) {
    return static_cast<int>(
        syscall(SYS_epoll_pwait, epoll, &event, 1, timeout_ms, nullptr, size_t{0}));
}

/// No timeout: waits until one of them is ready.
inline int poll_files(pollfd* files, size_t count, const timespec* timeout) {
    timespec left = timeout ? *timeout : timespec{}; // the kernel writes to it
    return static_cast<int>(
        syscall(SYS_ppoll, files, count, timeout ? &left : nullptr, nullptr, size_t{0}));
}
/// Does not wait.
inline int poll_file(pollfd& file) {
    const timespec now{};
    return poll_files(&file, 1, &now);
}

} // namespace softhca
