// SPDX-License-Identifier: BSD-3-Clause
// What has been idle for long, and tells nobody but by a record in its owner's memory that this is
// over. No store to memory wakes anybody, so that somebody has to look; but not at all in a round.
#pragma once

#include "app/softhca/core/doorbell.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace softhca::core {

/// Rounds in which there was nothing to do for a queue or CQ, before it counts as idle.
inline constexpr uint16_t kPatience = 1000;

/// At how many of them a round looks, which bounds what they cost and how late one is found.
[[nodiscard]] constexpr size_t looks_of_round(bool rested, size_t work) {
    // A thread that has slept finds nearly all at once, as it sleeps again at once if there is
    // nothing. One that polls is back soon. Where rounds take long for the work in them, a look
    // for each four units of work keeps the time until one's turn short.
    constexpr size_t kRested = 4096, kAtLeast = 16, kWorkPerLook = 4;
    return rested ? kRested : kAtLeast + work / kWorkPerLook;
}

/// Members of T that are looked at in turns: who comes, or has had its turn, waits behind all
/// others. Used by the device thread, or in control calls, with the device locked.
template <class T, class Record = Doorbell> class Turns {
  public:
    /// What a record holds.
    using Value = decltype(std::declval<const Record&>().load());

    /// `seen` is what the record held *before* it was found that there is nothing to do: whatever
    /// is written later, or was meanwhile, differs from it.
    void add(T& one, const Record& record, Value seen) {
        if (size_ == ring_.size()) grow();
        at(size_++) = {&one, record, seen};
    }
    /// Nothing when it is not there.
    void remove(const T& one) {
        size_t i = 0;
        while (i < size_ && at(i).one != &one)
            i++;
        if (i == size_) return;
        for (size_--; i < size_; i++)
            at(i) = at(i + 1);
    }
    [[nodiscard]] size_t size() const { return size_; }

    /// Looks at so many of them; those whose record has changed leave and are given to found(T&).
    template <class Found> void round(size_t looks, Found&& found) {
        for (looks = std::min(looks, size_); looks != 0 && size_ != 0; looks--) {
            const Entry next = at(0);
            // The record may be gone: then this does not come back, and whose it was is removed.
            const bool rests = next.record.load() == next.seen;
            first_++;
            if (rests) {
                at(size_ - 1) = next;
            } else {
                size_--;
                found(*next.one);
            }
        }
        fetch_next();
    }

  private:
    struct Entry {
        T* one = nullptr;
        Record record;
        Value seen{};
    };
    [[nodiscard]] Entry& at(size_t place) { return ring_[(first_ + place) & (ring_.size() - 1)]; }
    void grow() {
        constexpr size_t kAtFirst = 16;
        std::vector<Entry> larger(std::max(kAtFirst, 2 * ring_.size()));
        for (size_t i = 0; i < size_; i++)
            larger[i] = at(i);
        ring_ = std::move(larger);
        first_ = 0;
    }
    /// Records lie in as many pages as there are processes and contexts: in no cache.
    void fetch_next() {
        const size_t end = std::min(looks_of_round(false, 0), size_);
        for (size_t i = 0; i < end; i++)
            at(i).record.prefetch();
    }

    std::vector<Entry> ring_; ///< as many as a power of two
    size_t first_ = 0;        ///< whose turn it is
    size_t size_ = 0;
};

} // namespace softhca::core
