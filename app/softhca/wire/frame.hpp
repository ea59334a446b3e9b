// SPDX-License-Identifier: BSD-3-Clause
// Frame sizes that all wires share, and two small helpers. Lengths never include the FCS.
#pragma once

#include "app/softhca/wire/wire.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace softhca::wire {

inline constexpr uint32_t kMinFrame = 60;
inline constexpr uint32_t kEthernetHeader = 14;
/// Longer than the largest port MTU allows, so that the core sees (and counts) oversize frames:
/// even longer ones are truncated to this.
inline constexpr uint32_t kMaxFrame = 10240;

/// Pads a received frame with zeros as the sender's NIC would have done. A frame without even an
/// Ethernet header keeps its length: the core counts it as undersize. `data` has kMinFrame bytes.
inline uint32_t pad_received(std::byte* data, uint32_t length) {
    if (length >= kMinFrame || length < kEthernetHeader) return length;
    std::memset(data + length, 0, kMinFrame - length);
    return kMinFrame;
}

/// Copies the pieces of a frame into one.
inline void gather(const OutFrame& frame, std::byte* to) {
    for (const iovec& piece : frame.pieces) {
        std::memcpy(to, piece.iov_base, piece.iov_len);
        to += piece.iov_len;
    }
}

/// After a system call that returned EFAULT: reading the frame raises the fault again, for the
/// sender to handle, as on wires that copy frames themselves.
inline void raise_fault(const OutFrame& frame) {
    constexpr size_t kPage = 4096;
    for (const iovec& piece : frame.pieces) {
        const auto* const bytes = static_cast<const volatile std::byte*>(piece.iov_base);
        for (size_t at = 0; at < piece.iov_len; at += kPage)
            (void)bytes[at];
        if (piece.iov_len != 0) (void)bytes[piece.iov_len - 1];
    }
}

/// A frame in the form that system calls take: unchanged, or copied and padded when it is too
/// short.
class PaddedFrame {
  public:
    explicit PaddedFrame(const OutFrame& frame) : pieces_(frame.pieces) {
        if (frame.length >= kMinFrame) return;
        gather(frame, copy_.data());
        std::memset(copy_.data() + frame.length, 0, kMinFrame - frame.length);
        piece_ = {copy_.data(), kMinFrame};
        pieces_ = {&piece_, 1};
    }
    PaddedFrame(const PaddedFrame&) = delete;
    PaddedFrame& operator=(const PaddedFrame&) = delete;

    /// iovec arrays are not written by writev and sendmsg; their types just say so poorly.
    [[nodiscard]] iovec* data() const { return const_cast<iovec*>(pieces_.data()); }
    [[nodiscard]] size_t size() const { return pieces_.size(); }

  private:
    std::span<const iovec> pieces_;
    iovec piece_{};
    std::array<std::byte, kMinFrame> copy_;
};

/// Frames received by one batch of system calls, handed out one by one.
class FrameBatch {
  public:
    static constexpr size_t kFrames = 32;

    [[nodiscard]] bool empty() const { return next_ == count_; }
    [[nodiscard]] std::span<const std::byte> front() const {
        return {slots_[next_].data(), lengths_[next_]};
    }
    void pop() {
        if (!empty()) ++next_;
    }
    /// As many as there are and fit.
    size_t peek(std::span<iovec> frames) {
        const size_t count = std::min(frames.size(), count_ - next_);
        for (size_t i = 0; i < count; ++i)
            frames[i] = {slots_[next_ + i].data(), lengths_[next_ + i]};
        return count;
    }
    void clear() { next_ = count_ = 0; }

    /// Room for the next frame; only between clear() and the first front().
    [[nodiscard]] bool full() const { return count_ == kFrames; }
    [[nodiscard]] std::byte* slot(size_t index) { return slots_[index].data(); }
    [[nodiscard]] size_t count() const { return count_; }
    void push(uint32_t length) {
        lengths_[count_] = pad_received(slots_[count_].data(), length);
        ++count_;
    }

  private:
    size_t next_ = 0, count_ = 0;
    std::array<uint32_t, kFrames> lengths_{};
    // Not a multiple of 4 KiB: headers at equal page offsets would compete for the same cache sets.
    std::array<std::array<std::byte, kMaxFrame>, kFrames> slots_;
};
static_assert(kMaxFrame % 4096 != 0);

} // namespace softhca::wire
