// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/devx/record_file.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace softhca::uverbs::devx {

Result<std::shared_ptr<RecordFile>> RecordFile::create(Kind kind, uint64_t context,
                                                       bool without_data, Fd& user_fd) {
    std::array<int, 2> ends{};
    // Not a pipe: here each read(2) takes one record.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) < 0)
        return fail(errno, "event file: {}", std::strerror(errno));
    user_fd = Fd(ends[0]);
    return std::shared_ptr<RecordFile>(new RecordFile(kind, context, without_data, Fd(ends[1])));
}

bool RecordFile::post(std::span<const std::byte> record) {
    return send(write_end_.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
           static_cast<ssize_t>(record.size());
}

} // namespace softhca::uverbs::devx
