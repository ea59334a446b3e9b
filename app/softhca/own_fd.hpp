// SPDX-License-Identifier: BSD-3-Clause
// Descriptors and streams that only the process that opened them keeps.
#pragma once

#include "common/fd.hpp"

#include <cstdio>

namespace softhca {

/// An Fd that is closed at once in forked children. A child has no device threads, and as long as
/// it kept the descriptor, whoever is at the other end (of a cable, of the control socket) would
/// consider a dead parent alive.
class OwnFd {
  public:
    OwnFd() = default;
    explicit OwnFd(Fd fd) { *this = std::move(fd); }
    OwnFd(OwnFd&& other) noexcept { *this = other.take(); }
    OwnFd& operator=(OwnFd&&) = delete;
    OwnFd& operator=(Fd fd) noexcept;
    ~OwnFd() { reset(); }

    [[nodiscard]] int get() const { return fd_.get(); }
    [[nodiscard]] explicit operator bool() const { return bool(fd_); }
    void reset() { *this = Fd(); }

  private:
    friend struct OwnFds;
    [[nodiscard]] Fd take() noexcept;

    Fd fd_;
};

/// A stream of which forked children have no more than a useless copy: over /dev/null. When a child
/// exits, the C library writes what such a copy has buffered a second time, and moves the offset of
/// a file that is read, which the child shares with us.
class OwnStream {
  public:
    OwnStream() = default;
    OwnStream(const OwnStream&) = delete;
    OwnStream& operator=(const OwnStream&) = delete;
    ~OwnStream() { release(); }

    void hold(std::FILE* stream);
    /// Before the stream is closed.
    void release();

  private:
    friend struct OwnFds;
    int fd_ = -1;
};

} // namespace softhca
