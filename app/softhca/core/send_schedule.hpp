// SPDX-License-Identifier: BSD-3-Clause
// Which send queues a round of the device thread looks at. An idle one costs nothing where its
// owner has to ring a register that it shares with many others, as there are far fewer registers
// than queues. Else its doorbell record is all that tells, and is looked at in turns.
#pragma once

#include "app/softhca/core/objects.hpp"
#include "app/softhca/core/send_registers.hpp"
#include "app/softhca/core/turns.hpp"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace softhca::core {

/// SQs that share a page of registers. Most of the time the value in a register tells which SQ was
/// rung. Where two were, only the later one can be seen, so that after each ring all others are
/// looked at as well, few in a round: none is rung for nothing.
struct RungTogether {
    std::shared_ptr<SendRegisters> registers;
    std::vector<Sq*> sqs;
    std::unordered_map<Number, Sq*> by_number;
    bool watched = false; ///< the registers are looked at, so that SQs may sleep
    size_t next = 0;      ///< of `sqs`, to be looked at …
    size_t left = 0;      ///< … and so many from there on
};

/// Used by the device thread, or in control calls, with the device locked.
class SendSchedule {
  public:
    /// Whether the SQ has slept since it was last visited: it had nothing to send all the time.
    [[nodiscard]] static bool has_slept(const Sq& sq) {
        return sq.rest != Sq::Rest::none || sq.idle_rounds == kWoken;
    }
    /// How many SQs are looked at in a round for rings that could not be seen.
    static constexpr size_t kSweep = 8;

    /// The SQ is not in reset, or not any more.
    void start(Sq& sq) {
        stop(sq);
        awake_.push_back(&sq);
        sq.idle_rounds = 0;
        if (!sq.registers || sq.rc) return; // RC: they must come before all that are rung with them
        RungTogether& group = group_of(sq);
        group.sqs.push_back(&sq);
        group.by_number.emplace(sq.number, &sq);
        if (group.left != 0) group.left++; // it may come between the others
        sq.rung_with = &group;
    }
    /// It is looked at no more; nothing when it was not.
    void stop(Sq& sq) {
        switch (std::exchange(sq.rest, Sq::Rest::none)) {
        case Sq::Rest::none: std::erase(awake_, &sq); break;
        case Sq::Rest::in_turn: in_turn_.remove(sq); break;
        case Sq::Rest::until_rung: break;
        }
        RungTogether* const group = std::exchange(sq.rung_with, nullptr);
        if (!group) return;
        std::erase(group->sqs, &sq);
        group->by_number.erase(sq.number);
        group->next = 0;
        group->left = group->watched ? group->sqs.size() : 0; // they have moved
        if (group->sqs.size() <= SendRegisters::kCount) end_watch(*group);
        if (group->sqs.empty()) groups_.erase(group->registers.get());
    }
    /// Calls visit(Sq&), which returns units of work done, for each SQ that may have something to
    /// do. Returns the work of all; never none while a ring may not have been understood yet.
    /// `looks`: at so many of those whose record has to be looked at in turns.
    template <class Visit> size_t round(size_t looks, Visit&& visit) {
        size_t work = 0;
        in_turn_.round(looks, [this](Sq& sq) { begin_visits(sq); });
        for (RungTogether* const group : watched_)
            work += listen(*group, visit);
        for (size_t i = 0; i < awake_.size();) {
            Sq& sq = *awake_[i];
            // Before the visit: what is posted after this load but before those of the visit is
            // done, and what is posted later leaves another value in the record.
            const uint32_t bell = sq.idle_rounds >= kPatience ? sq.doorbell.load() : 0;
            const size_t done = visit(sq);
            work += done;
            if (done != 0 || sq.pending() != 0 || sq.idle_rounds == kWoken)
                sq.idle_rounds = 0;
            else if (sq.idle_rounds < kPatience)
                sq.idle_rounds++;
            else if (sq.rest = rest_of(sq); sq.rest != Sq::Rest::none) {
                if (sq.rest == Sq::Rest::in_turn) in_turn_.add(sq, sq.doorbell, bell);
                awake_[i] = awake_.back();
                awake_.pop_back();
                continue;
            }
            i++;
        }
        return work;
    }

  private:
    static constexpr uint16_t kWoken = kPatience + 1; ///< in the place of idle rounds

    [[nodiscard]] RungTogether& group_of(const Sq& sq) {
        RungTogether& group = groups_[sq.registers.get()];
        group.registers = sq.registers;
        return group;
    }
    /// Registers are watched only where that is less to look at, and begin to be a round before the
    /// first SQ sleeps: what was written before the SQ's last visit, that has seen.
    [[nodiscard]] Sq::Rest rest_of(const Sq& sq) {
        // What becomes due in other ways than by a ring of its own.
        if (sq.managed || sq.repeats || sq.pace) return Sq::Rest::none;
        if (!sq.rung_with || sq.rung_with->sqs.size() <= SendRegisters::kCount)
            return Sq::Rest::in_turn;
        RungTogether& group = *sq.rung_with;
        if (group.watched) return Sq::Rest::until_rung;
        group.registers->clear();
        group.watched = true;
        watched_.push_back(&group);
        return Sq::Rest::none;
    }
    void wake(Sq& sq) {
        if (sq.rest == Sq::Rest::none) return;
        if (sq.rest == Sq::Rest::in_turn) in_turn_.remove(sq);
        begin_visits(sq);
    }
    void begin_visits(Sq& sq) {
        sq.rest = Sq::Rest::none;
        sq.idle_rounds = kWoken;
        awake_.push_back(&sq);
    }
    void end_watch(RungTogether& group) {
        if (!std::exchange(group.watched, false)) return;
        std::erase(watched_, &group);
        for (Sq* const sq : group.sqs)
            wake(*sq);
    }
    template <class Visit> size_t listen(RungTogether& group, Visit&& visit) {
        for (size_t i = 0; i < SendRegisters::kCount; i++) {
            const uint64_t value = group.registers->take(i);
            if (value == 0) continue;
            group.left = group.sqs.size();
            const auto found = group.by_number.find(group.registers->number_of(value));
            if (found != group.by_number.end()) wake(*found->second);
        }
        if (group.left == 0) return 0;
        size_t work = 1;
        for (size_t n = std::min(kSweep, group.left); n != 0; n--) {
            group.left--;
            Sq& sq = *group.sqs[group.next];
            group.next = group.next + 1 < group.sqs.size() ? group.next + 1 : 0;
            if (sq.rest != Sq::Rest::until_rung) continue;
            const size_t done = visit(sq);
            work += done;
            if (done != 0 || sq.pending() != 0) wake(sq);
        }
        return work;
    }

    std::vector<Sq*> awake_;
    Turns<Sq> in_turn_;
    std::unordered_map<const SendRegisters*, RungTogether> groups_; ///< of each page
    std::vector<RungTogether*> watched_;                            ///< of these
};

} // namespace softhca::core
