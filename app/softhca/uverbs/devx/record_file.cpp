// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/devx/record_file.hpp"

#include "app/softhca/epoll.hpp"
#include "app/softhca/own_thread.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <vector>

namespace softhca::uverbs::devx {

/// A socket takes a few hundred records, however short: each occupies a buffer of the kernel's. The
/// others wait here, and a thread passes them on as the program reads.
struct RecordFile::Backlog {
    explicit Backlog(Fd end) : write_end(std::move(end)) {}

    /// With the mutex locked. Sends what there is room for.
    void send_waiting() {
        for (; !waiting.empty(); waiting.pop_front()) {
            const int error = try_send(waiting.front());
            if (error == EAGAIN) return;
            bytes -= waiting.front().size(); // or there is nobody to read it any more
        }
    }
    [[nodiscard]] int try_send(std::span<const std::byte> record) const {
        const ssize_t sent =
            send(write_end.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        return sent < 0 ? errno : 0;
    }

    const Fd write_end;
    std::mutex mutex;
    std::deque<std::vector<std::byte>> waiting;
    size_t bytes = 0;    ///< of those
    bool passes = false; ///< the thread runs
};

namespace {

// Linux: MAX_ASYNC_BYTES_IN_USE of mlx5_ib. Its events have no limit but the machine's memory.
constexpr size_t kMostAnswers = 1u << 20, kMostEvents = 16u << 20;

void pass_on(RecordFile::Backlog& backlog) {
    for (;;) {
        pollfd room{.fd = backlog.write_end.get(), .events = POLLOUT, .revents = 0};
        (void)poll_files(&room, 1, nullptr);
        const std::lock_guard lock(backlog.mutex);
        backlog.send_waiting();
        if (!backlog.waiting.empty()) continue;
        backlog.passes = false;
        return;
    }
}

/// False: the program has as many threads as it may have.
bool start_passing(std::shared_ptr<RecordFile::Backlog> backlog) {
    try {
        own_thread([backlog = std::move(backlog)] { pass_on(*backlog); }).detach();
        return true;
    } catch (const std::system_error&) {
        return false;
    }
}

} // namespace

RecordFile::RecordFile(Kind kind, uint64_t context, bool without_data, Fd write_end)
    : ContextFile(context), kind_(kind), without_data_(without_data),
      backlog_(std::make_shared<Backlog>(std::move(write_end))) {}

Result<std::shared_ptr<RecordFile>> RecordFile::create(Kind kind, uint64_t context,
                                                       bool without_data, Fd& user_fd) {
    std::array<int, 2> ends{};
    // Not a pipe: here each read(2) takes one record.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) < 0)
        return fail(errno, "event file: {}", std::strerror(errno));
    user_fd = Fd(ends[0]);
    return std::shared_ptr<RecordFile>(new RecordFile(kind, context, without_data, Fd(ends[1])));
}

std::optional<OpenFile::ReadResult> RecordFile::on_read(int fd, void* data, size_t room) {
    // Linux: devx_async_event_read, devx_async_cmd_event_read.
    const int too_small = kind_ == Kind::events ? EINVAL : ENOSPC;
    for (;;) {
        if (recv(fd, nullptr, 0, MSG_PEEK) < 0) return ReadResult{.error = errno};
        const std::lock_guard lock(read_mutex_);
        const ssize_t size = recv(fd, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
        if (size < 0 && errno == EAGAIN) continue; // another thread was faster
        if (size < 0) return ReadResult{.error = errno};
        if (static_cast<size_t>(size) > room) return ReadResult{.error = too_small};
        const ssize_t got = recv(fd, data, room, MSG_DONTWAIT);
        return got < 0 ? ReadResult{.error = errno} : ReadResult{.bytes = static_cast<size_t>(got)};
    }
}

bool RecordFile::post(std::span<const std::byte> record) {
    const std::lock_guard lock(backlog_->mutex);
    if (backlog_->waiting.empty()) {
        const int error = backlog_->try_send(record);
        if (error != EAGAIN) return error == 0;
    }
    const size_t most = kind_ == Kind::answers ? kMostAnswers : kMostEvents;
    if (backlog_->bytes + record.size() > most) return false;
    if (!backlog_->passes && !start_passing(backlog_)) return false;
    backlog_->passes = true;
    backlog_->bytes += record.size();
    backlog_->waiting.emplace_back(record.begin(), record.end());
    return true;
}

} // namespace softhca::uverbs::devx
