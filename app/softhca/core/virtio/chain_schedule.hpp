// SPDX-License-Identifier: BSD-3-Clause
// Which transmitting virtio queues a round of the device thread looks at: all that have had chains
// lately, and a few of the others in turn.
#pragma once

#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/turns.hpp"
#include "app/softhca/core/virtio/virtq.hpp"

#include <algorithm>
#include <vector>

namespace softhca::core {

/// Used by the device thread, or in control calls, with the device locked.
///
/// No posted chain is missed. A driver writes a chain's head, then the index of its available ring,
/// and then it may ring. A ring tells the device little, as a doorbell page is shared by many
/// queues and does not say which of them were rung; so the device never asks drivers not to ring
/// (VRING_USED_F_NO_NOTIFY), and has nothing to revert before it goes to sleep. New work shows in
/// the index. A look does not remember the index that it has seen: it compares it with the number
/// of chains taken, so an index that is written just after the last visit, or while the queue moves
/// to the idle ones, differs at the next look just the same.
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
    /// Calls visit(Sq&), which returns units of work done, until they add up to `most`: the next
    /// call starts with the queues not yet visited. Returns the total. `looks`: how many of the
    /// long-idle queues are checked.
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
    /// Translated by the key each time, as the memory is the driver's. A queue that is suspended,
    /// or in error, has nothing left to serve.
    struct Available {
        Virtq* virtq = nullptr;
        [[nodiscard]] bool load() const { return virtq->serves() && virtq->has_chain(); }
        void prefetch() const {}
    };

    std::vector<Sq*> awake_;
    size_t next_ = 0; ///< whose turn it is among these
    Turns<Sq, Available> in_turn_;
};

} // namespace softhca::core
