// SPDX-License-Identifier: BSD-3-Clause
// A completion queue without its format: its owner, and whether it still works.
#pragma once

#include "app/softhca/core/turns.hpp"
#include "app/softhca/core/types.hpp"

#include <utility>
#include <vector>

namespace softhca::core {

class Cq;

/// The CQs of a device that have work at the end of a round. Used with the device locked.
class CqVisits {
  public:
    void add_block(Cq& cq) { blocks_.push_back(&cq); }
    inline void await_arm(Cq& cq);
    void forget(const Cq& cq) {
        std::erase(blocks_, &cq);
        std::erase(unarmed_, &cq);
        idle_.remove(cq);
    }
    /// `looks`: how many of the CQs that have not been armed for long are checked.
    inline void end_round(size_t looks);

  private:
    inline void poll_unarmed();

    std::vector<Cq*> blocks_;  ///< hold completions back
    std::vector<Cq*> unarmed_; ///< are not known to be armed for any completion …
    Turns<Cq> idle_;           ///< … and have not been for kPatience rounds
};

/// A snapshot of a CQ's ring.
struct CqView {
    uint32_t entries = 0, entry_bytes = 0;
    uint32_t producer = 0, consumer = 0; ///< as their owners last said
    bool armed = false;
};

/// Used by the device thread with the device locked. The code that writes completions knows the
/// format, and so the derived class; the virtual calls here happen once per round, or on request.
class Cq {
  public:
    Cq(Number number, const CqAttr& attr)
        : events_(attr.events && attr.listener), listener_(attr.listener), cookie_(attr.cookie),
          number_(number) {}
    virtual ~Cq() = default;
    Cq(const Cq&) = delete;
    Cq& operator=(const Cq&) = delete;

    /// Continues in another ring, which RingFormat has found fit; see Device::resize_cq. May be
    /// left at any point where memory is missing.
    [[nodiscard]] virtual Outcome<void> resize(const DmaArea& ring, uint8_t log_entries,
                                               uint8_t cqe_size) = 0;
    enum class Arm : uint8_t { none, some, any };
    /// Checks for a new arm request. Only for CQs with events. "Any" means armed for any
    /// completion: no request that comes before the next event could ask for more.
    virtual Arm poll_arm() = 0;
    /// Where the consumer writes arm requests, and the value there when there is none.
    [[nodiscard]] virtual std::pair<Doorbell, uint32_t> arm_record() const = 0;
    /// Whether completions are held back, and the call that writes them out: required before the
    /// consumer may wait.
    [[nodiscard]] virtual bool compresses() const = 0;
    virtual void write_block() = 0;
    /// For observers. Reads the owner's memory.
    virtual void look(CqView& view) const = 0;
    /// Whether this byte of the owner's memory belongs to the CQ.
    [[nodiscard]] virtual bool works_on(const void* address) const = 0;

    /// Fault on request: treats the ring as full, whatever the consumer says.
    virtual void fill_up() = 0;
    /// Number of completions since the CQ was created.
    [[nodiscard]] virtual uint32_t completions() const = 0;
    /// Only the last completion is visible: each one overwrites the one before.
    [[nodiscard]] virtual bool keeps_last_only() const { return false; }
    /// For such a CQ: skips this many completions, which another one will overwrite.
    virtual void pass_over(uint32_t) {}
    /// Whether a full ring is written over.
    virtual void ignore_overrun(bool ignore) = 0;

    /// Breaks the CQ for good, as an overrun does: nothing more is written, and its owner is
    /// notified.
    void fail() {
        if (failed_) return;
        failed_ = true;
        if (listener_) listener_->on_async(AsyncEvent::cq_error, number_, cookie_);
    }
    [[nodiscard]] bool failed() const { return failed_; }
    [[nodiscard]] bool has_events() const { return events_; }
    [[nodiscard]] Number number() const { return number_; }

    /// Where the CQ registers for work at the end of a round; outlives the CQ. Without it, that
    /// work is not done.
    void set_visits(CqVisits& visits) {
        visits_ = &visits;
        if (events_) visits.await_arm(*this);
    }

    uint32_t users = 0;       ///< queues that complete here
    uint16_t idle_rounds = 0; ///< of CqVisits

  protected:
    void tell() { listener_->on_completion(number_, cookie_); }
    void begin_block() {
        if (visits_) visits_->add_block(*this);
    }
    /// The CQ was armed for any completion and no longer is.
    void await_arm() {
        if (visits_) visits_->await_arm(*this);
    }

  private:
    CqVisits* visits_ = nullptr;
    bool failed_ = false;
    bool events_;
    Listener* listener_;
    uint64_t cookie_;
    Number number_;
};

inline void CqVisits::await_arm(Cq& cq) {
    cq.idle_rounds = 0;
    unarmed_.push_back(&cq);
}

inline void CqVisits::end_round(size_t looks) {
    // A CQ joins the list again for each block that it begins. It is taken off first: write_block()
    // may not return, if memory is missing.
    while (!blocks_.empty()) {
        Cq* const cq = blocks_.back();
        blocks_.pop_back();
        cq->write_block();
    }
    idle_.round(looks, [this](Cq& cq) { await_arm(cq); });
    poll_unarmed();
}

inline void CqVisits::poll_unarmed() {
    for (size_t i = 0; i < unarmed_.size();) {
        Cq& cq = *unarmed_[i];
        const Cq::Arm arm = cq.poll_arm();
        cq.idle_rounds = arm == Cq::Arm::none ? static_cast<uint16_t>(cq.idle_rounds + 1) : 0;
        const bool is_idle = cq.idle_rounds >= kPatience;
        if (arm != Cq::Arm::any && !is_idle) {
            i++;
            continue;
        }
        unarmed_[i] = unarmed_.back();
        unarmed_.pop_back();
        if (!is_idle) continue;
        // A request that has come since poll_arm() stays in the record until poll_arm() takes it.
        const auto [record, none] = cq.arm_record();
        idle_.add(cq, record, none);
    }
}

} // namespace softhca::core
