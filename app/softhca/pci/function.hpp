// SPDX-License-Identifier: BSD-3-Clause
// The PCI function as a transport sees it: configuration space, BAR 0, guest memory, reset.
#pragma once

#include "app/softhca/pci/command_queue.hpp"
#include "app/softhca/pci/config_space.hpp"
#include "app/softhca/pci/firmware.hpp"
#include "app/softhca/pci/interrupts.hpp"

namespace softhca::pci {

/// Used by one transport thread; only interrupts come from elsewhere. What the guest writes,
/// however wrong, has an answer.
class Function {
  public:
    Function(core::Device& device, uint32_t speed_mbps)
        : firmware_(device, memory_, interrupts_, speed_mbps), commands_(firmware_, memory_) {}

    [[nodiscard]] uint32_t config_read(uint32_t at, uint32_t bytes) {
        return config_.read(at, bytes);
    }
    void config_write(uint32_t at, uint32_t value, uint32_t bytes);
    /// Offsets within BAR 0; values as the guest's little-endian CPU sees them; up to 8 bytes.
    [[nodiscard]] uint64_t bar_read(uint64_t at, uint32_t bytes);
    void bar_write(uint64_t at, uint64_t value, uint32_t bytes);
    void reset();

    [[nodiscard]] const ConfigSpace& config() const { return config_; }
    [[nodiscard]] GuestMemory& memory() { return memory_; }
    [[nodiscard]] Interrupts& interrupts() { return interrupts_; }
    [[nodiscard]] Firmware& firmware() { return firmware_; }

  private:
    [[nodiscard]] uint32_t read_init_segment(uint32_t at) const;
    void write_init_segment(uint32_t at, uint32_t value);
    void write_uar(uint32_t at, uint32_t value);

    ConfigSpace config_;
    Interrupts interrupts_;
    GuestMemory memory_;
    Firmware firmware_;
    CommandQueue commands_;
    uint32_t queue_address_high_ = 0;
};

} // namespace softhca::pci
