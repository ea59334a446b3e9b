// SPDX-License-Identifier: BSD-3-Clause
// Which virtio queues that send a round of the device thread looks at: all that have had chains of
// late, and of the others a few in turns.
#pragma once

#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/turns.hpp"
#include "app/softhca/core/virtio/virtq.hpp"

#include <algorithm>
#include <vector>

namespace softhca::core {

/// Used by the device thread, or in control calls, with the device locked.
///
/// Nothing that a driver posts is overlooked. It writes a chain's head, then the index of its
/// available ring, then it may ring. A ring is no news here, as a page of doorbells is for many
/// queues and does not say which of them were rung; so the device never asks drivers not to ring
/// (VRING_USED_F_NO_NOTIFY), and has nothing to take back before it goes to sleep. What tells is
/// the index. A look keeps nothing of what it has seen of that: it compares it with the number of
/// chains that were taken, so that an index that is written just after the last visit, or while the
/// queue goes into the turns, differs at the next look as well as at that one.
class ChainSchedule {
  public:
    /// The queue has begun to serve its driver.
    void start(Sq& sq) {
        sq.idle_rounds = 0;
        awake_.push_back(&sq);
    }
    void stop(const Sq& sq) {
        std::erase(awake_, &sq);
        in_turn_.remove(sq);
    }
    /// Calls visit(Sq&), which returns units of work done, until that was as much as `most`: who
    /// was not visited comes first the next time. Returns the work of all. `looks`: at so many that
    /// have been idle for long.
    template <class Visit> size_t round(size_t looks, size_t most, Visit&& visit) {
        in_turn_.round(looks, [this](Sq& sq) { start(sq); });
        size_t work = 0;
        for (size_t left = awake_.size(); left != 0 && work < most; left--) {
            if (next_ >= awake_.size()) next_ = 0;
            Sq& sq = *awake_[next_];
            const size_t done = visit(sq);
            work += done;
            sq.idle_rounds = done != 0 ? uint16_t{0} : static_cast<uint16_t>(sq.idle_rounds + 1);
            if (sq.idle_rounds < kPatience) {
                next_++;
                continue;
            }
            awake_[next_] = awake_.back();
            awake_.pop_back();
            in_turn_.add(sq, Available{sq.virtq.get()}, false);
        }
        return work;
    }

  private:
    /// Looked up by the key each time, as the memory is the driver's. One that is suspended, or in
    /// error, has nothing to be served any more.
    struct Available {
        Virtq* virtq = nullptr;
        [[nodiscard]] bool load() const { return virtq->serves() && virtq->has_chain(); }
        void prefetch() const {}
    };

    std::vector<Sq*> awake_;
    size_t next_ = 0; ///< among these, whose turn it is
    Turns<Sq, Available> in_turn_;
};

} // namespace softhca::core
