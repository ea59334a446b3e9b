// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/own_fd.hpp"

#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <set>
#include <unistd.h>
#include <utility>

namespace softhca {
namespace {

/// In a child, which has but one thread. First closes the old one: there may be no other free.
void replace_by_null(int fd) {
    ::close(fd);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || null == fd) return;
    dup3(null, fd, O_CLOEXEC);
    ::close(null);
}

} // namespace

/// The open ones. Locked while a thread forks, so that the child finds the list consistent.
struct OwnFds {
    std::mutex mutex;
    std::set<OwnFd*> open;
    std::set<OwnStream*> streams;

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
        for (OwnStream* const stream : all().streams)
            replace_by_null(std::exchange(stream->fd_, -1));
        all().streams.clear();
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

void OwnStream::hold(std::FILE* stream) {
    OwnFds& fds = OwnFds::all();
    const std::lock_guard lock(fds.mutex);
    fd_ = fileno(stream);
    fds.streams.insert(this);
}

void OwnStream::release() {
    OwnFds& fds = OwnFds::all();
    const std::lock_guard lock(fds.mutex);
    fd_ = -1;
    fds.streams.erase(this);
}

} // namespace softhca
