// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/capture_stream.hpp"

#include "app/softhca/epoll.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace softhca::wire {
namespace {

// https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap
constexpr size_t kFileHeader = 24;
constexpr size_t kCapturedLength = 8;        ///< its offset in the header of a record
constexpr uint32_t kLongestRecord = 1 << 18; ///< more than libpcap takes is damage
constexpr uint32_t kMicroseconds = 0xa1b2c3d4, kNanoseconds = 0xa1b23c4d;
constexpr uint32_t kPatched = 0xa1b2cd34; ///< of old Linux tools: records have longer headers
constexpr size_t kPatchedRecordHeader = 24;

// https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng
constexpr uint32_t kSection = 0x0a0d0d0a, kByteOrder = 0x1a2b3c4d;
constexpr uint32_t kInterface = 1, kObsoletePacket = 2, kSimplePacket = 3, kEnhancedPacket = 6;
constexpr size_t kSmallestBlock = 12;
constexpr uint32_t kLongestBlock = 1 << 24; ///< of libpcap, too

constexpr size_t kReadSize = 1 << 16; // what a pipe holds

} // namespace

Result<std::unique_ptr<CaptureStream>> CaptureStream::open(const std::string& path) {
    Fd fifo(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fifo) return fail(errno, "wire pcap: cannot play {} ({})", path, std::strerror(errno));
    Fd epoll(create_epoll());
    epoll_event event{};
    event.events = EPOLLIN;
    if (!epoll || control_epoll(epoll.get(), EPOLL_CTL_ADD, fifo.get(), event) < 0)
        return fail(errno, "wire pcap: cannot wait for {} ({})", path, std::strerror(errno));
    return std::unique_ptr<CaptureStream>(new CaptureStream(std::move(fifo), std::move(epoll)));
}

std::FILE* CaptureStream::stream() {
    cookie_io_functions_t functions{};
    functions.read = &CaptureStream::give;
    return fopencookie(this, "r", functions);
}

/// Called by the C library, as far as it reads ahead also for what libpcap will ask for later.
ssize_t CaptureStream::give(void* self, char* to, size_t size) {
    auto& stream = *static_cast<CaptureStream*>(self);
    const size_t count = std::min(size, stream.found_ - stream.given_);
    std::memcpy(to, stream.bytes_.data() + stream.given_, count);
    stream.given_ += count;
    return static_cast<ssize_t>(count);
}

void CaptureStream::close() {
    if (!fifo_) return;
    epoll_event none{};
    control_epoll(epoll_.get(), EPOLL_CTL_DEL, fifo_.get(), none);
    fifo_.reset();
    ended_ = true;
}

bool CaptureStream::ready() {
    while (ready_ == 0 && !ended_ && read())
        find_units();
    if (!ended_) return ready_ != 0;
    found_ = bytes_.size(); // what is left is less than a unit, and libpcap says so
    return true;
}

/// False when there is nothing new.
bool CaptureStream::read() {
    // A FIFO without a writer reads as ended: also before the first one, when it does not hang up.
    pollfd state{fifo_.get(), POLLIN, 0};
    if (poll_file(state) <= 0) return false;
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<ptrdiff_t>(given_));
    found_ -= std::exchange(given_, 0);
    const size_t before = bytes_.size();
    bytes_.resize(before + kReadSize);
    const ssize_t got = ::read(fifo_.get(), bytes_.data() + before, kReadSize);
    bytes_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) close();
    return true;
}

void CaptureStream::find_units() {
    for (;;) {
        const Unit unit = next_unit();
        if (unit.senseless) return close(); // libpcap gets the rest as it is
        if (unit.length == 0 || unit.length > bytes_.size() - found_) return;
        found_ += unit.length;
        head_found_ = head_found_ || unit.wanted;
        ready_ += unit.wanted;
    }
}

CaptureStream::Unit CaptureStream::next_unit() {
    switch (format_) {
    case Format::classic: return record();
    case Format::blocks: return block();
    case Format::unknown: return head_unit();
    }
    return {.senseless = true};
}

uint32_t CaptureStream::word(size_t offset) const {
    uint32_t value = 0;
    std::memcpy(&value, bytes_.data() + found_ + offset, sizeof value);
    return swapped_ ? __builtin_bswap32(value) : value;
}

CaptureStream::Unit CaptureStream::head_unit() {
    if (bytes_.size() - found_ < sizeof(uint32_t)) return {};
    if (word(0) == kSection) {
        format_ = Format::blocks;
        return block();
    }
    for (const bool swapped : {false, true}) {
        swapped_ = swapped;
        const uint32_t magic = word(0);
        if (magic != kMicroseconds && magic != kNanoseconds && magic != kPatched) continue;
        if (magic == kPatched) record_header_ = kPatchedRecordHeader;
        if (bytes_.size() - found_ < kFileHeader) return {};
        format_ = Format::classic;
        return {.length = kFileHeader, .wanted = true};
    }
    return {.senseless = true};
}

CaptureStream::Unit CaptureStream::record() const {
    if (bytes_.size() - found_ < record_header_) return {};
    const uint32_t captured = word(kCapturedLength);
    if (captured > kLongestRecord) return {.senseless = true};
    return {.length = record_header_ + captured, .wanted = true};
}

CaptureStream::Unit CaptureStream::block() {
    if (bytes_.size() - found_ < kSmallestBlock) return {};
    const uint32_t type = word(0);
    if (type == kSection && word(8) != kByteOrder) swapped_ = !swapped_;
    const uint32_t length = word(4);
    if (length < kSmallestBlock || length > kLongestBlock || length % 4 != 0)
        return {.senseless = true};
    const bool packet = type == kObsoletePacket || type == kSimplePacket || type == kEnhancedPacket;
    // libpcap opens a capture when it has read its first interface, and then returns packets only.
    return {.length = length, .wanted = packet || (type == kInterface && !head_found_)};
}

} // namespace softhca::wire
