// SPDX-License-Identifier: BSD-3-Clause
// The compressed block of completions that a receive queue takes packets from, and the CQ entries
// that must be marked `invalid` before the queue leaves it.
//
// The device writes a block's title and arrays of mini CQEs; it skips the other entries. What those
// hold from an earlier lap would look new two laps later, and so would the arrays. Storing
// `invalid` into each entry would cost one cache line per packet, and most of them hold it already,
// so a bit per entry tells where the device may have written since.
#pragma once

#include "common/lines.hpp"
#include "drivers/net/rawqp/rings/mlx5/cq.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace rawqp::mlx5rings {

class RxBlock {
  public:
    /// False: no memory.
    [[nodiscard]] bool create(const Cq& cq, int socket) {
        static_assert(mlx5::kMaxCompressed <= kWordBits);
        const uint32_t words = std::max((cq.mask + 1) / kWordBits, 1u);
        written_ = socket_array<uint64_t>(words, socket);
        last_word_ = words - 1;
        return written_ != nullptr;
    }

    /// The block of `count` completions whose title is at the consumer index becomes the present
    /// one.
    void open(const Cq& cq, uint32_t count) {
        note_written(cq.consumer + 1);
        this->count = count;
        prefetch(cq);
    }
    /// Called when all of its packets are taken. May be repeated if a process was killed here.
    void leave(Cq& cq) {
        const uint32_t first = cq.consumer + 1;
        const uint64_t entries = ~uint64_t{0} >> (kWordBits + 1 - count);
        for (uint64_t left = (bits(first) | kArrays) & entries; left != 0; left &= left - 1)
            cq.invalidate(first + static_cast<uint32_t>(std::countr_zero(left)));
        // A CQ with fewer entries than bits has several bits for each: they stay set.
        if (cq.mask >= kWordBits - 1) clear(first, entries);
        noted_ = cq.consumer + count;
        cq.leave_block(count);
    }
    /// Steps over everything that the device has written, as Cq::drain(). Returns how many were
    /// good completions.
    uint32_t drain(Cq& cq) {
        const uint32_t good = cq.drain();
        std::fill_n(written_.get(), last_word_ + 1, ~uint64_t{0});
        noted_ = cq.consumer;
        return good;
    }

    uint32_t count = 0; ///< its completions
    bool hashes = true; ///< mini CQEs hold the hash, not a checksum
    /// What its packets have in common, as the title describes it: the memory of an mbuf (the
    /// struct itself cannot be a member, as it ends in an empty array).
    [[nodiscard]] rte_mbuf& model() { return *reinterpret_cast<rte_mbuf*>(model_.data()); }

  private:
    static constexpr uint32_t kWordBits = 64;
    /// Entries that hold arrays, counted from the one after the title.
    static constexpr uint64_t kArrays = [] {
        uint64_t bits = 1;
        for (uint32_t entry = mlx5::kMiniCqes; entry < mlx5::kMaxCompressed;
             entry += mlx5::kMiniCqes)
            bits |= uint64_t{1} << (entry - 1);
        return bits;
    }();

    /// Prefetches the block's arrays, for writing as they will be stored into as well, and where
    /// the next block begins.
    void prefetch(const Cq& cq) const {
        for (uint32_t i = 0; i < count; i += mlx5::kMiniCqes)
            claim_line(cq.mini_array(cq.consumer, i));
        __builtin_prefetch(&cq.at(cq.consumer + count));
    }

    /// The bits of 64 entries from `entry` on.
    [[nodiscard]] uint64_t bits(uint32_t entry) const {
        const uint32_t shift = entry % kWordBits;
        const uint64_t high = shift == 0 ? 0 : word(entry + kWordBits) << (kWordBits - shift);
        return word(entry) >> shift | high;
    }
    void clear(uint32_t entry, uint64_t entries) {
        const uint32_t shift = entry % kWordBits;
        word(entry) &= ~(entries << shift);
        if (shift != 0) word(entry + kWordBits) &= ~(entries >> (kWordBits - shift));
    }
    /// The device has written the entries before `end` that were not noted yet.
    void note_written(uint32_t end) {
        const uint32_t all = (last_word_ + 1) * kWordBits;
        if (end - noted_ > all) noted_ = end - all;
        while (noted_ != end) {
            const uint32_t shift = noted_ % kWordBits;
            const uint32_t run = std::min(end - noted_, kWordBits - shift);
            word(noted_) |= ~uint64_t{0} >> (kWordBits - run) << shift;
            noted_ += run;
        }
    }
    [[nodiscard]] uint64_t& word(uint32_t entry) const {
        return written_[entry / kWordBits & last_word_];
    }

    SocketArray<uint64_t> written_;
    uint32_t last_word_ = 0;
    uint32_t noted_ = 0; ///< consumer index up to which the bits are right
    alignas(rte_mbuf) std::array<std::byte, sizeof(rte_mbuf)> model_{};
};

} // namespace rawqp::mlx5rings
