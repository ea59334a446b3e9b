// SPDX-License-Identifier: BSD-3-Clause
// A frame as a list of pieces of memory that others own.
#pragma once

#include "common/net/checksum.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <sys/uio.h>

namespace softhca::core {

/// Copies the first `bytes` of a frame into `to`; the frame is at least that long.
inline void copy_front(std::span<const iovec> pieces, std::byte* to, uint32_t bytes) {
    for (const iovec& piece : pieces) {
        if (bytes == 0) return;
        const auto part = static_cast<uint32_t>(std::min<size_t>(piece.iov_len, bytes));
        std::memcpy(to, piece.iov_base, part);
        to += part;
        bytes -= part;
    }
}

/// Adds `bytes` bytes of a frame from offset `from` on to `sum`.
inline void add_range(net::ChecksumSum& sum, std::span<const iovec> pieces, uint32_t from,
                      uint32_t bytes) {
    for (const iovec& piece : pieces) {
        if (from >= piece.iov_len) {
            from -= static_cast<uint32_t>(piece.iov_len);
            continue;
        }
        const auto part = static_cast<uint32_t>(std::min<size_t>(piece.iov_len - from, bytes));
        sum.add(static_cast<const std::byte*>(piece.iov_base) + from, part);
        bytes -= part;
        from = 0;
        if (bytes == 0) break;
    }
}

/// The sum of this range alone.
inline net::ChecksumSum sum_range(std::span<const iovec> pieces, uint32_t from, uint32_t bytes) {
    net::ChecksumSum sum;
    if (pieces.size() == 1)
        sum.add(static_cast<const std::byte*>(pieces.front().iov_base) + from, bytes);
    else
        add_range(sum, pieces, from, bytes);
    return sum;
}

/// Walks through contiguous bytes.
class FlatCursor {
  public:
    explicit FlatCursor(const void* data) : at_(static_cast<const std::byte*>(data)) {}
    void copy(uint32_t bytes, std::byte* to) {
        std::memcpy(to, at_, bytes);
        at_ += bytes;
    }

  private:
    const std::byte* at_;
};

/// A list of pieces under construction. Owns no bytes. Fixed size: no allocation, so reuse it.
class Gather {
  public:
    static constexpr size_t kMaxPieces = 256;

    void clear() {
        first_ = last_ = 1; // one slot is kept for push_front
        length_ = 0;
    }
    /// False when the list is full.
    [[nodiscard]] bool add(const void* data, uint32_t bytes) {
        if (last_ == pieces_.size()) return false;
        pieces_[last_++] = {const_cast<void*>(data), bytes};
        length_ += bytes;
        return true;
    }
    /// Removes the first `bytes` bytes (at most length()), copying them into `to`.
    void pop_front(std::byte* to, uint32_t bytes) {
        length_ -= bytes;
        while (bytes != 0) {
            iovec& piece = pieces_[first_];
            const auto part = static_cast<uint32_t>(std::min<size_t>(piece.iov_len, bytes));
            std::memcpy(to, piece.iov_base, part);
            to += part;
            bytes -= part;
            piece.iov_base = static_cast<std::byte*>(piece.iov_base) + part;
            piece.iov_len -= part;
            if (piece.iov_len == 0) first_++;
        }
    }
    /// At most once after clear() or after a pop_front() that emptied a piece.
    void push_front(const void* data, uint32_t bytes) {
        pieces_[--first_] = {const_cast<void*>(data), bytes};
        length_ += bytes;
    }

    /// Replaces the first piece.
    void replace_front(const void* data, uint32_t bytes) {
        length_ -= static_cast<uint32_t>(pieces_[first_++].iov_len);
        push_front(data, bytes);
    }

    [[nodiscard]] uint32_t length() const { return length_; }
    [[nodiscard]] std::span<const iovec> pieces() const {
        return {pieces_.data() + first_, last_ - first_};
    }

  private:
    std::array<iovec, kMaxPieces + 2> pieces_;
    size_t first_ = 1;
    size_t last_ = 1;
    uint32_t length_ = 0;
};

/// Hands out a frame's bytes in slices, front to back. The frame must be long enough.
class PieceCursor {
  public:
    explicit PieceCursor(std::span<const iovec> pieces) : pieces_(pieces) {}

    void skip(uint32_t bytes) {
        walk(bytes, [](const std::byte*, uint32_t) { return true; });
    }
    /// Appends the next `bytes` bytes to `into`; false when that is full.
    [[nodiscard]] bool take(uint32_t bytes, Gather& into) {
        return walk(bytes,
                    [&](const std::byte* data, uint32_t part) { return into.add(data, part); });
    }
    void copy(uint32_t bytes, std::byte* to) {
        walk(bytes, [&](const std::byte* data, uint32_t part) {
            std::memcpy(to, data, part);
            to += part;
            return true;
        });
    }

  private:
    template <class Use> bool walk(uint32_t bytes, Use&& use) {
        while (bytes != 0) {
            const iovec& piece = pieces_.front();
            const auto part =
                static_cast<uint32_t>(std::min<size_t>(piece.iov_len - offset_, bytes));
            if (!use(static_cast<const std::byte*>(piece.iov_base) + offset_, part)) return false;
            bytes -= part;
            offset_ += part;
            if (offset_ < piece.iov_len) continue;
            pieces_ = pieces_.subspan(1);
            offset_ = 0;
        }
        return true;
    }

    std::span<const iovec> pieces_;
    size_t offset_ = 0;
};

} // namespace softhca::core
