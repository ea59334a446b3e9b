// SPDX-License-Identifier: BSD-3-Clause
// A ring of frames between one writer and one reader, in memory that two processes may share.
#pragma once

#include "app/softhca/wire/frame.hpp"
#include "common/net/copy.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>

namespace softhca::wire {

/// Byte counts since the ring's creation, each on a cache line that only one side writes.
struct RingIndices {
    alignas(64) std::atomic<uint64_t> written; ///< by the writer: bytes that may be read
    alignas(64) std::atomic<uint64_t> read;    ///< by the reader: bytes that may be overwritten
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && sizeof(RingIndices) == 128);

/// The memory of a ring. `bytes` is a power of two and a multiple of kRecordAlign.
struct RingView {
    RingIndices* indices = nullptr;
    std::byte* data = nullptr;
    uint64_t bytes = 0;
};

/// Precedes each frame. Records start at multiples of kRecordAlign and never wrap around.
struct RecordHeader {
    uint32_t length;
    uint32_t reserved;
};
inline constexpr uint64_t kRecordAlign = 16;
inline constexpr uint32_t kSkipToEnd = UINT32_MAX; ///< as length: the next record is at offset 0

constexpr uint64_t record_bytes(uint32_t length) {
    return (sizeof(RecordHeader) + length + kRecordAlign - 1) & ~(kRecordAlign - 1);
}

// Indices cross between CPUs at most once per this many frames, or per 1/8 of the ring.
inline constexpr uint32_t kPublishFrames = 32;

class RingWriter {
  public:
    /// Continues where the last writer of this ring stopped: at the start of a record, whatever it
    /// contains.
    explicit RingWriter(RingView ring)
        : ring_(ring),
          written_(ring.indices->written.load(std::memory_order_relaxed) & ~(kRecordAlign - 1)),
          published_(written_), read_(ring.indices->read.load(std::memory_order_acquire)) {}

    SendResult put(const OutFrame& frame) {
        if (frame.length > kMaxFrame) return SendResult::lost;
        const uint32_t length = frame.length < kMinFrame ? kMinFrame : frame.length;
        std::byte* const data = begin(length);
        if (!data) return SendResult::busy;
        gather(frame, data);
        if (frame.length < length) std::memset(data + frame.length, 0, length - frame.length);
        end(length);
        return SendResult::sent;
    }
    /// Likewise for frames of one piece that are long enough, see Wire::send_batch().
    SendResult put_batch(std::span<const iovec> frames, size_t& sent) {
        for (const iovec& frame : frames) {
            const auto length = static_cast<uint32_t>(frame.iov_len);
            if (length > kMaxFrame) return SendResult::lost;
            std::byte* const data = begin(length);
            if (!data) return SendResult::busy;
            net::copy_packet(data, static_cast<const std::byte*>(frame.iov_base), length);
            end(length);
            sent++;
        }
        return SendResult::sent;
    }

    /// Makes everything that was put visible to the reader.
    void publish() {
        if (written_ == published_) return;
        ring_.indices->written.store(written_, std::memory_order_release);
        published_ = written_;
        unpublished_ = 0;
    }

    /// Whether the reader is done with everything that was put.
    [[nodiscard]] bool is_drained() const {
        return ring_.indices->read.load(std::memory_order_acquire) == written_;
    }

  private:
    /// Where the record of such a frame has its data; null when there is no room for it.
    std::byte* begin(uint32_t length) {
        const uint64_t bytes = record_bytes(length);
        const uint64_t to_end = ring_.bytes - offset();
        const uint64_t skipped = bytes > to_end || may_start_over() ? to_end : 0;
        if (!has_room(skipped + bytes)) {
            publish(); // otherwise the reader would never make room
            return nullptr;
        }
        if (skipped) {
            header()->length = kSkipToEnd;
            written_ += skipped;
        }
        header()->length = length;
        return ring_.data + offset() + sizeof(RecordHeader);
    }
    void end(uint32_t length) {
        written_ += record_bytes(length);
        if (++unpublished_ == kPublishFrames || written_ - published_ > ring_.bytes / 8) publish();
    }
    [[nodiscard]] uint64_t offset() const { return written_ & (ring_.bytes - 1); }
    [[nodiscard]] RecordHeader* header() const {
        return reinterpret_cast<RecordHeader*>(ring_.data + offset());
    }
    /// With a reader that keeps up, the same few lines are reused, and stay in its nearest cache.
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

/// Trusts nothing in the ring: the other process may be anything. Invalid contents are skipped up
/// to the newest record.
class RingReader {
  public:
    explicit RingReader(RingView ring)
        : ring_(ring), read_(ring.indices->read.load(std::memory_order_relaxed)), published_(read_),
          written_(read_) {}

    std::span<const std::byte> peek() {
        iovec frame{};
        if (peek_batch({&frame, 1}) == 0) return {};
        return {static_cast<const std::byte*>(frame.iov_base), frame.iov_len};
    }
    void pop() { pop_batch(1); }

    /// See Wire; at most kMaxBatch.
    size_t peek_batch(std::span<iovec> frames) {
        const size_t most = std::min(frames.size(), kMaxBatch);
        uint64_t at = read_;
        for (peeked_ = 0; peeked_ < most; peeked_++) {
            if (!find_record(at, frames[peeked_])) break;
            ends_[peeked_] = at;
        }
        return peeked_;
    }
    void pop_batch(size_t count) {
        if (count == 0 || count > peeked_) return;
        read_ = ends_[count - 1];
        peeked_ = 0;
        unpublished_ += static_cast<uint32_t>(count);
        if (unpublished_ >= kPublishFrames || read_ - published_ > ring_.bytes / 8) publish();
    }

    /// Returns the room of everything that was popped to the writer.
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
        peeked_ = 0;
        publish();
    }

  private:
    static constexpr size_t kMaxBatch = 32;

    [[nodiscard]] uint64_t offset(uint64_t at) const { return at & (ring_.bytes - 1); }
    /// Read only once: the value that was checked is the one used.
    [[nodiscard]] uint32_t length_at(uint64_t at) const {
        const auto* header = reinterpret_cast<const RecordHeader*>(ring_.data + offset(at));
        return __atomic_load_n(&header->length, __ATOMIC_RELAXED);
    }
    /// The frame whose record is at `at`, or after skipped records; `at` then becomes the record's
    /// end.
    bool find_record(uint64_t& at, iovec& frame) {
        if (at == written_ && !see_more(at)) return false;
        uint32_t length = length_at(at);
        if (length == kSkipToEnd) {
            at += ring_.bytes - offset(at);
            if (at == written_ && !see_more(at)) return false;
            length = length_at(at);
        }
        const uint64_t bytes = record_bytes(length);
        const uint64_t waiting = written_ - at; // huge if the skipped record was invalid
        if (length > kMaxFrame || length < kEthernetHeader || length > waiting ||
            waiting > ring_.bytes || offset(at) + bytes > ring_.bytes) {
            if (peeked_ == 0) skip_all(); // otherwise when its turn comes
            return false;
        }
        std::byte* const data = ring_.data + offset(at) + sizeof(RecordHeader);
        __builtin_prefetch(data + bytes);
        frame = {data, length};
        at += bytes;
        return true;
    }
    /// Whether something was written after `at`.
    bool see_more(uint64_t at) {
        publish();
        const uint64_t written = ring_.indices->written.load(std::memory_order_acquire);
        const uint64_t waiting = written - read_;
        if (waiting <= ring_.bytes && waiting % kRecordAlign == 0 && waiting >= at - read_) {
            written_ = written;
            return written > at;
        }
        if (peeked_ == 0) skip_all();
        return false;
    }

    RingView ring_;
    uint64_t read_;
    uint64_t published_;
    uint64_t written_; ///< last seen
    size_t peeked_ = 0;
    std::array<uint64_t, kMaxBatch> ends_; ///< of the records that were peeked at
    uint32_t unpublished_ = 0;
};

} // namespace softhca::wire
