// SPDX-License-Identifier: BSD-3-Clause
// The firmware behind a port, for all DevX contexts of this process.
#pragma once

#include "app/softhca/prm/firmware.hpp"
#include "app/softhca/uverbs/buffers.hpp"
#include "app/softhca/uverbs/devx/events.hpp"
#include "app/softhca/uverbs/devx/pacing.hpp"
#include "app/softhca/uverbs/devx/process_memory.hpp"
#include "app/softhca/uverbs/devx/var.hpp"
#include "app/softhca/uverbs/runtime.hpp"

#include <mutex>
#include <vector>

namespace softhca::uverbs {

/// Acts as the kernel's driver, whose event queues, doorbell pages and Q counter programs share.
/// Thread-safe.
class PortFirmware {
  public:
    /// The firmware of a port whose device is running; created on first use.
    [[nodiscard]] static std::shared_ptr<PortFirmware> of(Port& port);

    PortFirmware(core::Device& device, uint32_t speed_mbps);

    /// Number of the event queue of a completion vector.
    static constexpr core::Number kFirstEq = 4;
    [[nodiscard]] static constexpr core::Number eq_of(uint32_t vector) { return kFirstEq + vector; }

    /// Runs a command, in which it sets the user, and fills in the answer. 0, or EREMOTEIO: the
    /// answer says why it failed.
    [[nodiscard]] Errno execute(std::vector<uint8_t>& in, std::vector<uint8_t>& out, uint16_t uid);
    /// Calls use(prm::Firmware&) with no command running.
    template <class Use> decltype(auto) with_firmware(Use&& use) {
        const std::lock_guard lock(mutex_);
        return use(firmware_);
    }

    devx::EventFiles events;
    devx::PacingTable pacing;
    devx::VarTable vars;

  private:
    std::mutex mutex_;
    devx::ProcessMemory memory_;
    prm::Firmware firmware_;
};

} // namespace softhca::uverbs
