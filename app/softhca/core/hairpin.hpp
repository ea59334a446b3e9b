// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues: what steering gives to such an RQ leaves through its peer SQ, by the device
// alone. They have no rings: packets wait in the device's own memory.
#pragma once

#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/types.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace softhca::core {

/// The hairpin SQs of one device that waited for packets and now have some. Another device's thread
/// may have brought them. Thread-safe.
class HairpinWakes {
  public:
    void add(Number sqn) {
        const std::lock_guard lock(mutex_);
        sqns_.push_back(sqn);
        any_.store(true, std::memory_order_release);
    }
    /// Calls wake(Number) for each SQ added since the last call, without the lock. For the device's
    /// thread.
    template <class Wake> void take(Wake&& wake) {
        // Usually this only loads a line that nobody writes. An SQ that is added now is served in
        // the next round.
        if (!any_.load(std::memory_order_acquire)) return;
        {
            const std::lock_guard lock(mutex_);
            taken_.swap(sqns_);
            any_.store(false, std::memory_order_relaxed);
        }
        for (const Number sqn : taken_)
            wake(sqn);
        taken_.clear();
    }

  private:
    std::mutex mutex_;
    std::vector<Number> sqns_, taken_;
    std::atomic<bool> any_{false};
};

/// What an RQ has taken and its SQ has not sent yet, in order; and which two queues those are. They
/// may belong to two devices, hence to two threads. Thread-safe: one thread calls for the RQ, one
/// for the SQ. The lock is not held while memory of others is read: a thread that finds such memory
/// gone does not return from there (run_guarded).
class HairpinBuffer {
  public:
    struct Packet {
        std::array<iovec, 2> parts; ///< the second one is empty unless the packet wraps around
        uint32_t bytes;
        uint32_t metadata; ///< reg_b of what was received, reg_a of what is sent
        uint64_t serial;   ///< distinguishes the packet from those before it

        [[nodiscard]] std::span<const iovec> pieces() const {
            return {parts.data(), parts[1].iov_len == 0 ? 1u : 2u};
        }
    };

    explicit HairpinBuffer(const HairpinSize& size, HairpinEnd rq = {})
        : size_(size), most_packets_(1u << size.log_packets), most_bytes_(1u << size.log_bytes),
          entries_(most_packets_),
          memory_(std::make_unique_for_overwrite<std::byte[]>(most_bytes_)), rq_(std::move(rq)) {}

    [[nodiscard]] const HairpinSize& size() const { return size_; }
    [[nodiscard]] uint32_t packets() const {
        const std::lock_guard lock(mutex_);
        return packets_ - (was_sent_ ? 1 : 0);
    }

    // ---- For the RQ.

    /// The SQ that the RQ names; none: nobody.
    [[nodiscard]] HairpinEnd named() const {
        const std::lock_guard lock(mutex_);
        return named_;
    }
    /// From now on the buffer holds what both the RQ and its peer can hold. It is empty, except for
    /// a packet that is just being sent.
    void name(const HairpinEnd& sq, const HairpinSize& sq_size) {
        const std::lock_guard lock(mutex_);
        named_ = sq;
        most_packets_ = 1u << std::min(size_.log_packets, sq_size.log_packets);
        most_bytes_ = 1u << std::min(size_.log_bytes, sq_size.log_bytes);
        wake();
    }
    /// The RQ names nobody any more. Returns how many packets are lost: all but one that is being
    /// sent.
    [[nodiscard]] uint32_t drop() {
        const std::lock_guard lock(mutex_);
        named_ = {};
        const uint32_t kept = sending_ ? 1 : 0;
        const uint32_t lost = packets_ - std::min(packets_, kept);
        if (!sending_) serial_ += lost;
        for (uint32_t i = 0; i < lost; i++)
            bytes_ -= entry(--packets_).bytes;
        return lost;
    }
    /// Likewise; the RQ is destroyed.
    [[nodiscard]] uint32_t close() {
        const uint32_t lost = drop();
        const std::lock_guard lock(mutex_);
        rq_ = {};
        return lost;
    }
    [[nodiscard]] bool has_room(uint32_t bytes) const {
        const std::lock_guard lock(mutex_);
        return packets_ < most_packets_ && bytes_ + bytes <= most_bytes_;
    }
    /// Copies a packet that there is room for.
    void push(std::span<const iovec> pieces, uint32_t bytes, uint32_t metadata) {
        const Split split = split_at(next_byte(), bytes);
        PieceCursor cursor(pieces);
        cursor.copy(split.before_end, memory_.get() + split.offset);
        cursor.copy(bytes - split.before_end, memory_.get());
        const std::lock_guard lock(mutex_);
        entry(packets_) = {bytes, metadata};
        packets_++;
        bytes_ += bytes;
        wake();
    }

    // ---- For the SQ.

    /// The RQ, if it still exists.
    [[nodiscard]] HairpinEnd rq() const {
        const std::lock_guard lock(mutex_);
        return rq_;
    }
    /// Whether the SQ may send what the RQ takes: no other SQ does, and the RQ names no other. Once
    /// the SQ waits, `wakes` is notified of packets.
    [[nodiscard]] bool attach(const HairpinEnd& sq, std::shared_ptr<HairpinWakes> wakes) {
        const std::lock_guard lock(mutex_);
        if (sender_ || (named_ && named_ != sq)) return false;
        sender_ = sq;
        wakes_ = std::move(wakes);
        waits_ = false;
        return true;
    }
    /// The SQ no longer sends for the RQ. The RQ fills up, and still names the SQ that it named.
    void detach() {
        const std::lock_guard lock(mutex_);
        free_sent();
        sending_ = false;
        sender_ = {};
    }
    /// Likewise; the SQ is destroyed.
    void forget() {
        const std::lock_guard lock(mutex_);
        if (named_ == sender_) named_ = {};
        free_sent();
        sending_ = false;
        sender_ = {};
    }
    /// The oldest packet, if both name each other; sent() or keep() must then say what became of
    /// it. Without a packet, the SQ waits.
    [[nodiscard]] std::optional<Packet> take() {
        const std::lock_guard lock(mutex_);
        free_sent();
        if (packets_ == 0 || !sender_ || sender_ != named_) {
            waits_ = true;
            return {};
        }
        sending_ = true;
        const Entry& oldest = entry(0);
        const Split split = split_at(first_byte_, oldest.bytes);
        return Packet{.parts = {{{memory_.get() + split.offset, split.before_end},
                                 {memory_.get(), oldest.bytes - split.before_end}}},
                      .bytes = oldest.bytes,
                      .metadata = oldest.metadata,
                      .serial = serial_};
    }
    /// Whether there was nothing to take, and still is nothing. A call that makes it false also
    /// notifies `wakes`: both happen under one lock, so that a caller that sees true will be woken.
    [[nodiscard]] bool waits() const {
        const std::lock_guard lock(mutex_);
        return waits_;
    }
    void keep() {
        const std::lock_guard lock(mutex_);
        sending_ = false;
    }
    /// The packet's bytes stay where they are until free() or the next take().
    void sent() {
        const std::lock_guard lock(mutex_);
        was_sent_ = true;
    }
    void free() {
        const std::lock_guard lock(mutex_);
        free_sent();
    }

  private:
    struct Entry {
        uint32_t bytes = 0, metadata = 0;
    };
    struct Split {
        uint32_t offset;
        uint32_t before_end; ///< bytes up to the end of the memory; the rest is at its start
    };
    [[nodiscard]] uint32_t capacity() const { return 1u << size_.log_bytes; }
    [[nodiscard]] Split split_at(uint32_t place, uint32_t bytes) const {
        const uint32_t offset = place % capacity();
        return {offset, std::min(bytes, capacity() - offset)};
    }
    [[nodiscard]] uint32_t next_byte() const {
        const std::lock_guard lock(mutex_);
        return first_byte_ + bytes_;
    }
    [[nodiscard]] Entry& entry(uint32_t index) {
        return entries_[(first_ + index) % entries_.size()];
    }
    /// There may be something for the SQ.
    void wake() {
        if (std::exchange(waits_, false) && sender_) wakes_->add(sender_.number);
    }
    void free_sent() {
        if (!was_sent_) return;
        was_sent_ = sending_ = false;
        const uint32_t bytes = entry(0).bytes;
        first_ = (first_ + 1) % static_cast<uint32_t>(entries_.size());
        first_byte_ = (first_byte_ + bytes) % capacity();
        packets_--;
        bytes_ -= bytes;
        serial_++;
    }

    const HairpinSize size_;
    mutable std::mutex mutex_;
    uint32_t most_packets_, most_bytes_;
    std::vector<Entry> entries_;
    std::unique_ptr<std::byte[]> memory_;
    uint32_t first_ = 0, packets_ = 0;
    uint32_t first_byte_ = 0, bytes_ = 0;
    uint64_t serial_ = 1;                 ///< of the oldest packet
    bool sending_ = false;                ///< the SQ has taken the oldest one
    bool was_sent_ = false;               ///< which has left, and whose bytes are still read
    HairpinEnd rq_;                       ///< the buffer's owner; none: it is gone
    HairpinEnd named_;                    ///< the SQ that the RQ names
    HairpinEnd sender_;                   ///< the SQ that names the RQ
    bool waits_ = false;                  ///< the SQ waits for packets
    std::shared_ptr<HairpinWakes> wakes_; ///< those of its device
};

} // namespace softhca::core
