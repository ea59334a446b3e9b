// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/own_fd.hpp"

#include <mutex>
#include <pthread.h>
#include <set>

namespace softhca {

/// The open ones. Locked while a thread forks, so that the child finds the list consistent.
struct OwnFds {
    std::mutex mutex;
    std::set<OwnFd*> open;

    /// Never destroyed: wires may outlive static objects.
    static OwnFds& all() {
        static auto* const fds = [] {
            pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); }, in_child);
            return new OwnFds;
        }();
        return *fds;
    }
    static void in_child() {
        for (OwnFd* const fd : all().open)
            fd->fd_.reset();
        all().open.clear();
        all().mutex.unlock();
    }
};

OwnFd& OwnFd::operator=(Fd fd) noexcept {
    OwnFds& fds = OwnFds::all();
    const std::lock_guard lock(fds.mutex);
    fd_ = std::move(fd);
    if (fd_)
        fds.open.insert(this);
    else
        fds.open.erase(this);
    return *this;
}

Fd OwnFd::take() noexcept {
    OwnFds& fds = OwnFds::all();
    const std::lock_guard lock(fds.mutex);
    fds.open.erase(this);
    return std::move(fd_);
}

} // namespace softhca
