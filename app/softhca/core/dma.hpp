// SPDX-License-Identifier: BSD-3-Clause
// Memory that the device may access: ring buffers and memory regions, as host pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace softhca::core {

/// A byte range made of equal, power-of-two host pages; one huge page when contiguous. Does not own
/// the pages. Cheap to read from device threads; immutable after construction.
class DmaArea {
  public:
    DmaArea() = default;

    static DmaArea contiguous(void* base, uint64_t length) {
        return DmaArea({static_cast<std::byte*>(base)}, kContiguousShift, 0, length);
    }
    /// `offset` is the position of byte 0 inside the first page.
    static DmaArea paged(std::vector<std::byte*> pages, uint8_t page_shift, uint64_t offset,
                         uint64_t length) {
        return DmaArea(std::move(pages), page_shift, offset, length);
    }

    [[nodiscard]] uint64_t length() const { return length_; }

    /// Whether there is room for a ring of this many bytes, with entries of this alignment, so that
    /// no page boundary splits an entry.
    [[nodiscard]] bool holds(uint64_t bytes, uint64_t alignment) const {
        return length_ >= bytes && reinterpret_cast<uintptr_t>(at(0)) % alignment == 0;
    }

    /// Host address of byte `at`; the caller has checked at < length().
    [[nodiscard]] std::byte* at(uint64_t at) const {
        if (whole_) return whole_ + at;
        at += offset_;
        return pages_[at >> shift_] + (at & mask_);
    }
    /// Number of bytes from `at` on that are contiguous in host memory.
    [[nodiscard]] uint64_t run(uint64_t at) const {
        const uint64_t to_page_end = mask_ + 1 - ((at + offset_) & mask_);
        return to_page_end < length_ - at ? to_page_end : length_ - at;
    }

    /// All bytes that are contiguous in host memory with byte `at`: the first one, and their
    /// number.
    struct Run {
        uint64_t first = 0, bytes = 0;
    };
    [[nodiscard]] Run run_around(uint64_t at) const {
        const uint64_t page = (at + offset_) & ~mask_;
        const uint64_t first = page > offset_ ? page - offset_ : 0;
        return {first, std::min(page + (mask_ + 1) - offset_, length_) - first};
    }

    /// A sub-range; the caller has checked at + length <= length().
    [[nodiscard]] DmaArea part(uint64_t at, uint64_t length) const {
        const uint64_t first = (at + offset_) >> shift_,
                       last = (at + offset_ + length - 1) >> shift_;
        return DmaArea({pages_.begin() + static_cast<ptrdiff_t>(first),
                        pages_.begin() + static_cast<ptrdiff_t>(last) + 1},
                       shift_, (at + offset_) & mask_, length);
    }

    /// Whether this byte of host memory is part of the area.
    [[nodiscard]] bool contains(const void* address) const {
        const auto* const byte = static_cast<const std::byte*>(address);
        for (size_t i = 0; i < pages_.size(); i++) {
            if (byte < pages_[i] || static_cast<uint64_t>(byte - pages_[i]) > mask_) continue;
            const uint64_t at = (uint64_t{i} << shift_) + static_cast<uint64_t>(byte - pages_[i]);
            if (at >= offset_ && at - offset_ < length_) return true;
        }
        return false;
    }

  private:
    static constexpr uint8_t kContiguousShift = 62;

    DmaArea(std::vector<std::byte*> pages, uint8_t shift, uint64_t offset, uint64_t length)
        : pages_(std::move(pages)), shift_(shift), mask_((uint64_t{1} << shift) - 1),
          offset_(offset), length_(length),
          whole_(pages_.size() == 1 ? pages_.front() + offset : nullptr) {}

    std::vector<std::byte*> pages_;
    uint8_t shift_ = kContiguousShift;
    uint64_t mask_ = 0;
    uint64_t offset_ = 0;
    uint64_t length_ = 0;
    std::byte* whole_ = nullptr; ///< byte 0, if there is one page only
};

} // namespace softhca::core
