// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/event_pipe.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>
#include <vector>

namespace softhca::uverbs {

Result<std::shared_ptr<EventPipe>> EventPipe::create(Kind kind, uint64_t context, Fd& user_fd) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) < 0)
        return fail(errno, "event pipe: {}", std::strerror(errno));
    Fd reader(ends[0]), writer(ends[1]);
    if (fcntl(writer.get(), F_SETFL, O_NONBLOCK) < 0)
        return fail(errno, "event pipe: {}", std::strerror(errno));
    const std::string own = fmt::format("/proc/self/fd/{}", reader.get());
    Fd own_reader(open(own.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!own_reader)
        return fail(errno, "event pipe: {}: {} (is /proc mounted?)", own, std::strerror(errno));
    user_fd = std::move(reader);
    return std::shared_ptr<EventPipe>(
        new EventPipe(kind, context, std::move(writer), std::move(own_reader)));
}

size_t EventPipe::record_size() const {
    return kind_ == Kind::completions ? sizeof(ib_uverbs_comp_event_desc)
                                      : sizeof(ib_uverbs_async_event_desc);
}

bool EventPipe::post(std::span<const std::byte> record) {
    // Records are far smaller than PIPE_BUF: written whole or not at all.
    while (write(write_end_.get(), record.data(), record.size()) !=
           static_cast<ssize_t>(record.size()))
        if (errno != EAGAIN || !grow()) return false;
    return true;
}

/// False: the pipe is as large as it may be. Not from the start, as a user may have only so much
/// in all pipes.
bool EventPipe::grow() const {
    constexpr int kMost = 1 << 20; // without rights; holds an event of each CQ that can be
    const int size = fcntl(write_end_.get(), F_GETPIPE_SZ);
    return size > 0 && size < kMost && fcntl(write_end_.get(), F_SETPIPE_SZ, 2 * size) > size;
}

size_t EventPipe::withdraw(const std::function<bool(std::span<const std::byte>)>& match) {
    const std::lock_guard lock(withdraw_mutex_);
    std::vector<std::byte> kept;
    std::vector<std::byte> record(record_size());
    size_t withdrawn = 0;
    while (read(read_end_.get(), record.data(), record.size()) ==
           static_cast<ssize_t>(record.size())) {
        if (match(record))
            withdrawn++;
        else
            kept.insert(kept.end(), record.begin(), record.end());
    }
    for (size_t at = 0; at < kept.size(); at += record.size())
        (void)post(std::span(kept).subspan(at, record.size()));
    return withdrawn;
}

} // namespace softhca::uverbs
