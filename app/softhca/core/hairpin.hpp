// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues: what steering gives to such an RQ leaves by its peer SQ, by the device alone.
// They have no rings: packets wait in the device's own memory.
#pragma once

#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/types.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

namespace softhca::core {

/// Packets that an RQ has taken and its peer SQ has not sent yet, in their order. Allocates when it
/// is made only.
class HairpinBuffer {
  public:
    struct Packet {
        std::array<iovec, 2> parts; ///< the second one is empty unless it goes round in the memory
        uint32_t bytes;
        uint32_t metadata; ///< reg_b of what was received, reg_a of what is sent

        [[nodiscard]] std::span<const iovec> pieces() const {
            return {parts.data(), parts[1].iov_len == 0 ? 1u : 2u};
        }
    };

    explicit HairpinBuffer(const HairpinSize& size)
        : size_(size), most_packets_(1u << size.log_packets), most_bytes_(1u << size.log_bytes),
          entries_(most_packets_),
          memory_(std::make_unique_for_overwrite<std::byte[]>(most_bytes_)) {}

    [[nodiscard]] const HairpinSize& size() const { return size_; }
    /// From now on it holds what both it and its peer can hold. It is empty.
    void limit(const HairpinSize& peer) {
        most_packets_ = 1u << std::min(size_.log_packets, peer.log_packets);
        most_bytes_ = 1u << std::min(size_.log_bytes, peer.log_bytes);
    }

    [[nodiscard]] uint32_t packets() const { return packets_; }
    [[nodiscard]] bool empty() const { return packets_ == 0; }
    [[nodiscard]] bool has_room(uint32_t bytes) const {
        return packets_ < most_packets_ && bytes <= most_bytes_ - bytes_;
    }
    /// Copies a packet that it has room for.
    void push(std::span<const iovec> pieces, uint32_t bytes, uint32_t metadata) {
        const Split split = split_at(first_byte_ + bytes_, bytes);
        PieceCursor cursor(pieces);
        cursor.copy(split.before_end, memory_.get() + split.offset);
        cursor.copy(bytes - split.before_end, memory_.get());
        entries_[(first_ + packets_) % entries_.size()] = {bytes, metadata};
        packets_++;
        bytes_ += bytes;
    }
    /// The oldest packet. Its bytes stay where they are until the next push() after it has left.
    [[nodiscard]] Packet front() const {
        const Entry& entry = entries_[first_];
        const Split split = split_at(first_byte_, entry.bytes);
        return {.parts = {{{memory_.get() + split.offset, split.before_end},
                           {memory_.get(), entry.bytes - split.before_end}}},
                .bytes = entry.bytes,
                .metadata = entry.metadata};
    }
    void pop() {
        const uint32_t bytes = entries_[first_].bytes;
        first_ = (first_ + 1) % static_cast<uint32_t>(entries_.size());
        first_byte_ = (first_byte_ + bytes) % capacity();
        packets_--;
        bytes_ -= bytes;
    }
    void clear() { packets_ = bytes_ = 0; }

  private:
    struct Entry {
        uint32_t bytes = 0, metadata = 0;
    };
    struct Split {
        uint32_t offset;
        uint32_t before_end; ///< so many bytes from there on, the rest from the start of the memory
    };
    [[nodiscard]] uint32_t capacity() const { return 1u << size_.log_bytes; }
    [[nodiscard]] Split split_at(uint32_t place, uint32_t bytes) const {
        const uint32_t offset = place % capacity();
        return {offset, std::min(bytes, capacity() - offset)};
    }

    HairpinSize size_;
    uint32_t most_packets_, most_bytes_;
    std::vector<Entry> entries_;
    std::unique_ptr<std::byte[]> memory_;
    uint32_t first_ = 0, packets_ = 0;
    uint32_t first_byte_ = 0, bytes_ = 0;
};

} // namespace softhca::core
