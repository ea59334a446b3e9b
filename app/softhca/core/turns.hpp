// SPDX-License-Identifier: BSD-3-Clause
// What has been idle for long, and tells nobody but by a record in its owner's memory that this is
// over. No store to memory wakes anybody, so that somebody has to look; but not at all in a round.
#pragma once

#include "app/softhca/core/doorbell.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

/// Members of T that are looked at in turns. Used by the device thread, or in control calls, with
/// the device locked.
template <class T> class Turns {
  public:
    /// `seen` is what the record held *before* it was found that there is nothing to do: whatever
    /// is written later, or was meanwhile, differs from it.
    void add(T& one, const Doorbell& bell, uint32_t seen) { all_.push_back({&one, bell, seen}); }
    /// Nothing when it is not there.
    void remove(const T& one) {
        const auto found = std::ranges::find(all_, &one, &Entry::one);
        if (found == all_.end()) return;
        if (static_cast<size_t>(found - all_.begin()) < next_) next_--;
        all_.erase(found); // in order: none loses its turn
    }
    [[nodiscard]] size_t size() const { return all_.size(); }

    /// Looks at so many of them; those whose record has changed leave and are given to found(T&).
    template <class Found> void round(size_t looks, Found&& found) {
        for (looks = std::min(looks, all_.size()); looks != 0 && !all_.empty(); looks--) {
            if (next_ >= all_.size()) next_ = 0;
            // The record may be gone: then this does not come back, and whose it was is removed.
            if (all_[next_].bell.load() == all_[next_].seen) {
                next_++;
                continue;
            }
            T& one = *all_[next_].one;
            all_[next_] = all_.back();
            all_.pop_back();
            found(one);
        }
        fetch_next();
    }

  private:
    struct Entry {
        T* one;
        Doorbell bell;
        uint32_t seen;
    };
    /// Records lie in as many pages as there are processes and contexts: in no cache.
    void fetch_next() const {
        const size_t end = std::min(next_ + looks_of_round(false, 0), all_.size());
        for (size_t i = next_; i < end; i++)
            all_[i].bell.prefetch();
    }

    std::vector<Entry> all_;
    size_t next_ = 0; ///< whose turn it is
};

} // namespace softhca::core
