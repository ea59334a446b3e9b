// SPDX-License-Identifier: BSD-3-Clause
// Event queues: EQEs in guest memory and the interrupts behind them.
#pragma once

#include "app/softhca/core/dma.hpp"
#include "app/softhca/pci/interrupts.hpp"
#include "app/softhca/prm/events.hpp"

#include <cstdint>
#include <map>
#include <mutex>

namespace softhca::pci {

using prm::EventData;
using prm::EventType;

struct EqAttr {
    core::DmaArea ring;
    uint8_t log_entries = 0;
    uint32_t uar = 0; ///< the page of the BAR that contains its doorbell
    uint32_t vector = 0;
    uint64_t mask = 0; ///< bit per EventType that goes to this EQ
};

/// Thread-safe: the device threads and the command interface push, the guest rings doorbells.
class EventQueues final : public prm::EventSink {
  public:
    static constexpr uint32_t kFirst = 4, kLast = 127; ///< numbers; low ones are the firmware's own

    explicit EventQueues(Interrupts& interrupts) : interrupts_(interrupts) {}

    /// Returns the EQ number, or 0 when none is left.
    [[nodiscard]] uint32_t create(EqAttr attr);
    [[nodiscard]] bool destroy(uint32_t eqn);
    void clear() override;

    /// The consumer index moved; `arm`: interrupt when there is more. Ignored from any other page
    /// than the EQ's own: programs write to pages of theirs, and EQs are the driver's.
    void ring_doorbell(uint32_t uar, uint32_t eqn, uint32_t consumer, bool arm);
    void push(uint32_t eqn, EventType type, uint8_t subtype, const EventData& data) override;
    /// To every EQ whose mask includes the type.
    void push_all(EventType type, uint8_t subtype, const EventData& data) override;
    [[nodiscard]] bool wanted(EventType type) const;
    [[nodiscard]] uint64_t lost() const; ///< EQEs that found their EQ full

  private:
    struct Eq {
        EqAttr attr;
        uint32_t producer = 0;
        uint32_t consumer = 0; ///< 24 bits
        bool armed = false;
    };
    void write(Eq& eq, EventType type, uint8_t subtype, const EventData& data);

    mutable std::mutex mutex_;
    std::map<uint32_t, Eq> eqs_;
    uint64_t lost_ = 0;
    Interrupts& interrupts_;
};

} // namespace softhca::pci
