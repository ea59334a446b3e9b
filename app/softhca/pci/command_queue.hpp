// SPDX-License-Identifier: BSD-3-Clause
// The command interface: slots in guest memory, mailboxes, ownership.
#pragma once

#include "app/softhca/pci/event_queues.hpp"
#include "app/softhca/pci/guest_memory.hpp"
#include "app/softhca/prm/firmware.hpp"

namespace softhca::pci {

/// Used by the transport's thread.
class CommandQueue {
  public:
    static constexpr uint8_t kLogSlots = 5, kLogStride = 6;
    static constexpr uint8_t kInterfaceRevision = 5;

    CommandQueue(prm::Firmware& firmware, EventQueues& events, GuestMemory& memory)
        : firmware_(firmware), events_(events), memory_(memory) {}

    void set_base(uint64_t address) { base_ = address; }
    [[nodiscard]] uint64_t base() const { return base_; }
    /// Runs the commands of all slots whose bit is set.
    void ring_doorbell(uint32_t slots);

  private:
    struct Slot;
    enum class Delivery : uint8_t;

    void run(uint32_t index);
    [[nodiscard]] Delivery execute(Slot& slot);

    prm::Firmware& firmware_;
    EventQueues& events_;
    GuestMemory& memory_;
    uint64_t base_ = 0;
};

} // namespace softhca::pci
