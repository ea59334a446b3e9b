// SPDX-License-Identifier: BSD-3-Clause
// Objects that have been idle for long, and whose owner announces new work only through a record in
// memory. A store to memory wakes no thread, so the records must be polled, but not all of them in
// one round.
#pragma once

#include "app/softhca/core/doorbell.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace softhca::core {

/// Rounds without work after which a queue or CQ counts as idle.
inline constexpr uint16_t kPatience = 1000;

/// How many of them a round polls, which bounds both the cost and the delay in noticing one.
[[nodiscard]] constexpr size_t looks_of_round(bool rested, size_t work) {
    // A thread that has slept polls nearly all at once, as it sleeps again at once if there is
    // nothing. A polling thread is back soon. Where the work of a round takes long, one look for
    // each four units of work keeps the time between an object's turns short.
    constexpr size_t kRested = 4096, kAtLeast = 16, kWorkPerLook = 4;
    return rested ? kRested : kAtLeast + work / kWorkPerLook;
}

/// Members of T that are polled in turn: an object that is added, or has had its turn, queues
/// behind all others. Used by the device thread, or in control calls, with the device locked.
template <class T, class Record = Doorbell> class Turns {
  public:
    /// The value of a record.
    using Value = decltype(std::declval<const Record&>().load());

    /// `seen` is the record's value from *before* it was found that there is nothing to do:
    /// anything written after that differs from it.
    void add(T& one, const Record& record, Value seen) {
        if (size_ == ring_.size()) grow();
        at(size_++) = {&one, record, seen};
    }
    /// No effect when it is not there.
    void remove(const T& one) {
        size_t i = 0;
        while (i < size_ && at(i).one != &one)
            i++;
        if (i == size_) return;
        for (size_--; i < size_; i++)
            at(i) = at(i + 1);
    }
    [[nodiscard]] size_t size() const { return size_; }

    /// Looks at this many of them; those whose record has changed are removed and passed to
    /// found(T&).
    template <class Found> void round(size_t looks, Found&& found) {
        for (looks = std::min(looks, size_); looks != 0 && size_ != 0; looks--) {
            const Entry next = at(0);
            // The record may be gone: then this does not return, and the owner of the record is
            // removed.
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
    /// Records are spread over as many pages as there are processes and contexts, so they are not
    /// in any cache.
    void fetch_next() {
        const size_t end = std::min(looks_of_round(false, 0), size_);
        for (size_t i = 0; i < end; i++)
            at(i).record.prefetch();
    }

    std::vector<Entry> ring_; ///< its size is a power of two
    size_t first_ = 0;        ///< whose turn is next
    size_t size_ = 0;
};

} // namespace softhca::core
