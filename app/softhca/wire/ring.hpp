// SPDX-License-Identifier: BSD-3-Clause
// A ring of frames between one writer and one reader, in memory that two processes may share.
#pragma once

#include "app/softhca/wire/frame.hpp"

#include <atomic>
#include <bit>

namespace softhca::wire {

/// Byte counts since the ring was made, each on a cache line that only one side writes.
struct RingIndices {
    alignas(64) std::atomic<uint64_t> written; ///< by the writer: bytes that may be read
    alignas(64) std::atomic<uint64_t> read;    ///< by the reader: bytes that may be overwritten
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(RingIndices) == 128);

/// Where a ring lives. `bytes` is a power of two and a multiple of kRecordAlign.
struct RingView {
    RingIndices* indices = nullptr;
    std::byte* data = nullptr;
    uint64_t bytes = 0;
};

/// In front of each frame. Records start at multiples of kRecordAlign and never wrap around.
struct RecordHeader {
    uint32_t length;
    uint32_t reserved;
};
inline constexpr uint64_t kRecordAlign = 16;
inline constexpr uint32_t kSkipToEnd = UINT32_MAX; ///< as length: the next record is at offset 0

constexpr uint64_t record_bytes(uint32_t length) {
    return (sizeof(RecordHeader) + length + kRecordAlign - 1) & ~(kRecordAlign - 1);
}

// Indices cross between CPUs at most once for this many frames, or for 1/8 of the ring.
inline constexpr uint32_t kPublishFrames = 32;

class RingWriter {
  public:
    /// Goes on where the last writer of this ring stopped; a record's start, whatever stands there.
    explicit RingWriter(RingView ring)
        : ring_(ring),
          written_(ring.indices->written.load(std::memory_order_relaxed) & ~(kRecordAlign - 1)),
          published_(written_), read_(ring.indices->read.load(std::memory_order_acquire)) {}

    SendResult put(const OutFrame& frame) {
        if (frame.length > kMaxFrame) return SendResult::lost;
        const uint32_t length = frame.length < kMinFrame ? kMinFrame : frame.length;
        const uint64_t bytes = record_bytes(length);
        const uint64_t to_end = ring_.bytes - offset();
        const uint64_t skipped = bytes > to_end || may_start_over() ? to_end : 0;
        if (!has_room(skipped + bytes)) {
            publish(); // or the reader would never make room
            return SendResult::busy;
        }
        if (skipped) {
            header()->length = kSkipToEnd;
            written_ += skipped;
        }
        header()->length = length;
        std::byte* data = ring_.data + offset() + sizeof(RecordHeader);
        gather(frame, data);
        if (frame.length < length) std::memset(data + frame.length, 0, length - frame.length);
        written_ += bytes;
        if (++unpublished_ == kPublishFrames || written_ - published_ > ring_.bytes / 8) publish();
        return SendResult::sent;
    }

    /// Lets the reader see everything that was put.
    void publish() {
        if (written_ == published_) return;
        ring_.indices->written.store(written_, std::memory_order_release);
        published_ = written_;
        unpublished_ = 0;
    }

  private:
    [[nodiscard]] uint64_t offset() const { return written_ & (ring_.bytes - 1); }
    [[nodiscard]] RecordHeader* header() const {
        return reinterpret_cast<RecordHeader*>(ring_.data + offset());
    }
    /// A reader that keeps up gets few lines again and again, which stay in its nearest cache.
    bool may_start_over() {
        if (offset() < kEnough) return false;
        read_ = ring_.indices->read.load(std::memory_order_acquire);
        return read_ == written_;
    }
    bool has_room(uint64_t bytes) {
        if (written_ + bytes - read_ <= ring_.bytes) return true;
        read_ = ring_.indices->read.load(std::memory_order_acquire);
        return written_ + bytes - read_ <= ring_.bytes;
    }

    static constexpr uint64_t kEnough = 16 * 1024;
    static_assert(kEnough >= record_bytes(kMaxFrame), "what is skipped leaves room for a record");

    RingView ring_;
    uint64_t written_;
    uint64_t published_;
    uint64_t read_; ///< last seen
    uint32_t unpublished_ = 0;
};

/// Trusts nothing in the ring: the other process may have been anything. What makes no sense is
/// skipped up to the newest record.
class RingReader {
  public:
    explicit RingReader(RingView ring)
        : ring_(ring), read_(ring.indices->read.load(std::memory_order_relaxed)), published_(read_),
          written_(read_) {}

    std::span<const std::byte> peek() {
        if (read_ == written_ && !see_more()) return {};
        uint32_t length = next_length();
        if (length == kSkipToEnd) {
            read_ += ring_.bytes - offset();
            if (read_ == written_ && !see_more()) return {};
            length = next_length();
        }
        if (length > kMaxFrame || length < kEthernetHeader || length > written_ - read_ ||
            offset() + record_bytes(length) > ring_.bytes) {
            skip_all();
            return {};
        }
        const std::byte* data = ring_.data + offset() + sizeof(RecordHeader);
        __builtin_prefetch(data + record_bytes(length));
        current_ = record_bytes(length);
        return {data, length};
    }

    void pop() {
        read_ += current_;
        current_ = 0;
        if (++unpublished_ == kPublishFrames || read_ - published_ > ring_.bytes / 8) publish();
    }

    /// Gives the room of everything that was popped back to the writer.
    void publish() {
        if (read_ == published_) return;
        ring_.indices->read.store(read_, std::memory_order_release);
        published_ = read_;
        unpublished_ = 0;
    }

    /// Drops everything written so far.
    void skip_all() {
        read_ = written_ =
            ring_.indices->written.load(std::memory_order_acquire) & ~(kRecordAlign - 1);
        current_ = 0;
        publish();
    }

  private:
    [[nodiscard]] uint64_t offset() const { return read_ & (ring_.bytes - 1); }
    /// Read once only: what was checked is what is used.
    [[nodiscard]] uint32_t next_length() const {
        const auto* header = reinterpret_cast<const RecordHeader*>(ring_.data + offset());
        return __atomic_load_n(&header->length, __ATOMIC_RELAXED);
    }
    bool see_more() {
        publish();
        written_ = ring_.indices->written.load(std::memory_order_acquire);
        const uint64_t waiting = written_ - read_;
        if (waiting <= ring_.bytes && waiting % kRecordAlign == 0) return waiting > 0;
        skip_all();
        return false;
    }

    RingView ring_;
    uint64_t read_;
    uint64_t published_;
    uint64_t written_; ///< last seen
    uint64_t current_ = 0;
    uint32_t unpublished_ = 0;
};

} // namespace softhca::wire
