// SPDX-License-Identifier: BSD-3-Clause
// The PCI function as a transport sees it: configuration space, BAR 0, guest memory, reset.
#pragma once

#include "app/softhca/pci/command_queue.hpp"
#include "app/softhca/pci/config_space.hpp"
#include "app/softhca/pci/event_queues.hpp"
#include "app/softhca/pci/guest_memory.hpp"
#include "app/softhca/pci/interrupts.hpp"
#include "app/softhca/prm/firmware.hpp"

#include <mutex>

namespace softhca::pci {

/// Thread-safe: the transport and the control socket call. Every guest write, however wrong, is
/// handled.
class Function {
  public:
    Function(core::Device& device, uint32_t speed_mbps, prm::Users users);

    [[nodiscard]] uint32_t config_read(uint32_t at, uint32_t bytes);
    void config_write(uint32_t at, uint32_t value, uint32_t bytes);
    /// Offsets within BAR 0; values as the guest's little-endian CPU sees them; up to 8 bytes.
    [[nodiscard]] uint64_t bar_read(uint64_t at, uint32_t bytes);
    void bar_write(uint64_t at, uint64_t value, uint32_t bytes);
    void reset();
    [[nodiscard]] uint32_t bar0();

    /// Firmware stops with this health syndrome: no command is answered and no packet moves until
    /// the driver resets it. The driver finds out when it next checks the health buffer.
    void fail(uint8_t syndrome);

    /// Calls use(GuestMemory&) or use(prm::Firmware&) with exclusive access to the function.
    template <class Use> decltype(auto) with_memory(Use&& use) {
        const std::lock_guard lock(mutex_);
        return use(memory_);
    }
    template <class Use> decltype(auto) with_firmware(Use&& use) {
        const std::lock_guard lock(mutex_);
        return use(firmware_);
    }
    [[nodiscard]] Interrupts& interrupts() { return interrupts_; } ///< has its own lock
    [[nodiscard]] EventQueues& events() { return events_; }        ///< likewise

  private:
    /// The interface state that the driver sees (Linux: MLX5_NIC_IFC_*).
    enum class Interface : uint8_t { full = 0, disabled = 1, software_reset = 7 };

    void reset_firmware();
    void set_interface(Interface state);
    void write_queue_address(uint32_t low);
    [[nodiscard]] uint32_t read_init_segment(uint32_t at) const;
    void write_init_segment(uint32_t at, uint32_t value);
    void write_uar(uint32_t at, uint32_t value);

    std::mutex mutex_;
    ConfigSpace config_;
    Interrupts interrupts_;
    GuestMemory memory_;
    EventQueues events_{interrupts_};
    std::vector<uint64_t> given_pages_; ///< by MANAGE_PAGES; remain given after a teardown
    prm::Firmware firmware_;
    CommandQueue commands_;
    uint32_t queue_address_high_ = 0;
    Interface interface_ = Interface::full;
    uint8_t syndrome_ = 0; ///< of a fatal error; 0: healthy
};

} // namespace softhca::pci
