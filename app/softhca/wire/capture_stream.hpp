// SPDX-License-Identifier: BSD-3-Clause
// A capture that arrives over time: what another program writes into a FIFO.
#pragma once

#include "app/softhca/own_fd.hpp"
#include "common/result.hpp"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace softhca::wire {

/// libpcap waits for all of a packet, and only knows the start of the next one. This finds out how
/// far the capture has arrived, without waiting, and gives libpcap a stream of what has: libpcap is
/// called when what it reads next is complete. Does not change what the bytes say; what it does not
/// understand it leaves to libpcap.
class CaptureStream {
  public:
    /// Does not wait for a writer.
    static Result<std::unique_ptr<CaptureStream>> open(const std::string& path);

    /// Takes in what has arrived. True once libpcap finds in the stream what it reads next: the
    /// head of the capture, then one packet after the other, in the end nothing.
    [[nodiscard]] bool ready();
    /// libpcap has read it.
    void taken() { ready_ -= ready_ != 0; }
    /// The writer sees that nobody reads any more.
    void close();

    /// For libpcap, which closes it.
    [[nodiscard]] std::FILE* stream();
    /// Becomes readable when ready() may have something new.
    [[nodiscard]] int wait_fd() const { return epoll_.get(); }

  private:
    enum class Format : uint8_t { unknown, classic, blocks };
    /// What the bytes at found_ start with.
    struct Unit {
        size_t length = 0;      ///< 0: not enough bytes to tell
        bool wanted = false;    ///< libpcap returns after it
        bool senseless = false; ///< no length can be told
    };

    CaptureStream(Fd fifo, Fd epoll) : fifo_(std::move(fifo)), epoll_(std::move(epoll)) {}
    bool read();
    void find_units();
    [[nodiscard]] Unit next_unit();
    [[nodiscard]] Unit head_unit();
    [[nodiscard]] Unit record() const;
    [[nodiscard]] Unit block();
    [[nodiscard]] uint32_t word(size_t offset) const;
    static ssize_t give(void* self, char* to, size_t size);

    OwnFd fifo_;
    Fd epoll_; ///< outlives fifo_: the device thread keeps waiting on it
    std::vector<char> bytes_;
    size_t given_ = 0; ///< of bytes_, to the stream
    size_t found_ = 0; ///< of bytes_: the end of the last complete unit
    size_t ready_ = 0; ///< wanted units that libpcap has not read yet
    bool ended_ = false;
    Format format_ = Format::unknown;
    bool swapped_ = false;      ///< written on a machine of the other byte order
    bool head_found_ = false;   ///< libpcap has all it needs to know of the capture
    size_t record_header_ = 16; ///< of the classic format
};

} // namespace softhca::wire
