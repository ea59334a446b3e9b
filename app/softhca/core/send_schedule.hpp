// SPDX-License-Identifier: BSD-3-Clause
// Which send queues a round of the device thread looks at. An idle one costs nothing if its owner
// has to ring a register shared with many others, as there are far fewer registers than queues.
// Otherwise only its doorbell record shows new work, and the idle SQs are polled in turn.
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

/// SQs that share a page of registers. Usually the value in a register identifies the SQ that was
/// rung. Where two were rung, only the later one is visible, so after each ring all others are
/// checked as well, a few per round: no ring is missed.
struct RungTogether {
    std::shared_ptr<SendRegisters> registers;
    std::vector<Sq*> sqs;
    std::unordered_map<Number, Sq*> by_number;
    bool watched = false; ///< the registers are polled, so that SQs may sleep
    size_t next = 0;      ///< index in `sqs` of the next one to check …
    size_t left = 0;      ///< … and how many are left from there on
};

/// Used by the device thread, or in control calls, with the device locked.
class SendSchedule {
  public:
    /// Whether the SQ has slept since it was last visited: it had nothing to send all that time.
    [[nodiscard]] static bool has_slept(const Sq& sq) {
        return sq.rest != Sq::Rest::none || sq.idle_rounds == kWoken;
    }
    /// How many SQs a round checks for rings that could not be seen.
    static constexpr size_t kSweep = 8;

    /// The SQ has left reset.
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
    /// The SQ is no longer looked at; no effect when it was not.
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
    /// Calls visit(Sq&), which returns units of work done, for each SQ that may have work. Returns
    /// the total; never 0 while a ring may not have been attributed yet. `looks`: how many of the
    /// SQs whose record has to be polled in turn are checked.
    template <class Visit> size_t round(size_t looks, Visit&& visit) {
        size_t work = 0;
        in_turn_.round(looks, [this](Sq& sq) { begin_visits(sq); });
        for (RungTogether* const group : watched_)
            work += listen(*group, visit);
        for (size_t i = 0; i < awake_.size();) {
            Sq& sq = *awake_[i];
            // Before the visit: what was posted after this load but before those of the visit is
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
    static constexpr uint16_t kWoken = kPatience + 1; ///< in place of idle rounds

    [[nodiscard]] RungTogether& group_of(const Sq& sq) {
        RungTogether& group = groups_[sq.registers.get()];
        group.registers = sq.registers;
        return group;
    }
    /// Registers are watched only where that means less polling, and from one round before the
    /// first SQ sleeps: anything written before the SQ's last visit was seen by that visit.
    [[nodiscard]] Sq::Rest rest_of(const Sq& sq) {
        // SQs that become due in other ways than by their own doorbell.
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
