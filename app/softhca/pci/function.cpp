// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/function.hpp"

#include "app/softhca/clock.hpp"
#include "app/softhca/core/rings/mlx5/doorbells.hpp"
#include "app/softhca/identity.hpp"
#include "app/softhca/pci/commands.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::pci {
namespace {

// Initialization segment (mlx5_init_seg of <linux/mlx5/device.h>), big-endian words.
constexpr uint32_t kFirmwareRevision = 0x00, kInterfaceAndSubminor = 0x04;
constexpr uint32_t kQueueAddressHigh = 0x10, kQueueAddressLow = 0x14, kCommandDoorbell = 0x18;
constexpr uint32_t kInitializing = 0x1fc;
constexpr uint32_t kHealthFirmware = 0x230, kHealthSeverity = 0x238,
                   kHealthSyndrome = 0x23c; // mlx5 struct health_buffer
constexpr uint32_t kTimerHigh = 0x1000, kTimerLow = 0x1004, kHealthCounter = 0x1010;
constexpr uint32_t kInitSegmentEnd = 0x4000;
constexpr uint32_t kResetSupported = 1u << 30; // in kInitializing; bit 31 would be "still busy"
constexpr uint32_t kResetRequired = 1u << 31;  // in kHealthSeverity
constexpr uint32_t kSyndromeShift = 16, kInterfaceShift = 8, kInterfaceMask = 7;
constexpr uint32_t kQueueSizes = CommandQueue::kLogSlots << 4 | CommandQueue::kLogStride;

// Doorbells of a UAR page.
constexpr uint32_t kEqArm = 0x40, kEqUpdate = 0x48;

} // namespace

Function::Function(core::Device& device, uint32_t speed_mbps, prm::Users users)
    : config_(pci_device(device.config().steering_format)),
      firmware_(device, memory_, events_, speed_mbps, users),
      commands_(firmware_, events_, memory_) {
    prm::CommandTable commands;
    add_page_commands(commands, given_pages_);
    add_uar_commands(commands);
    add_eq_commands(commands, events_);
    firmware_.add_commands(std::move(commands));
    firmware_.reset();
}

void Function::reset_firmware() {
    firmware_.reset();
    given_pages_.clear();
}

uint32_t Function::config_read(uint32_t at, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    return config_.read(at, bytes);
}

uint32_t Function::bar0() {
    const std::lock_guard lock(mutex_);
    return config_.bar0();
}

void Function::config_write(uint32_t at, uint32_t value, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    config_.write(at, value, bytes);
    interrupts_.set_enabled(config_.msix_enabled());
}

uint32_t Function::read_init_segment(uint32_t at) const {
    constexpr uint64_t kHealthPeriodNs = 100'000'000; // the driver looks every two seconds
    switch (at) {
    case kFirmwareRevision: return kFirmwareMinor << 16 | kFirmwareMajor;
    case kInterfaceAndSubminor: return CommandQueue::kInterfaceRevision << 16 | kFirmwareSubminor;
    case kQueueAddressHigh: return static_cast<uint32_t>(commands_.base() >> 32);
    case kQueueAddressLow:
        return static_cast<uint32_t>(commands_.base()) |
               static_cast<uint32_t>(interface_) << kInterfaceShift | kQueueSizes;
    case kInitializing: return kResetSupported;
    case kHealthFirmware: return kFirmwareMajor << 24 | kFirmwareMinor << 16 | kFirmwareSubminor;
    case kHealthSeverity: return syndrome_ ? kResetRequired : 0;
    case kHealthSyndrome: return uint32_t{syndrome_} << kSyndromeShift;
    case kTimerHigh: return static_cast<uint32_t>(clock_ns() >> 32);
    case kTimerLow: return static_cast<uint32_t>(clock_ns());
    case kHealthCounter: return static_cast<uint32_t>(clock_ns() / kHealthPeriodNs) & 0xffffff;
    default: return 0;
    }
}

uint64_t Function::bar_read(uint64_t at, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes = std::min<uint32_t>(bytes, 8);
    if (at >= BarLayout::kBytes) return ~uint64_t{0};
    const auto offset = static_cast<uint32_t>(at);
    if (offset >= BarLayout::kMsixPending && offset < BarLayout::kMsixPending + BarLayout::kPage)
        return interrupts_.read_pending(offset - BarLayout::kMsixPending, bytes);
    if (offset >= BarLayout::kMsixTable && offset < BarLayout::kMsixTable + Interrupts::kTableBytes)
        return interrupts_.read_table(offset - BarLayout::kMsixTable, bytes);
    if (offset >= kInitSegmentEnd) return 0;
    uint8_t words[16];
    const uint32_t start = offset & ~3u;
    for (uint32_t i = 0; i < 3; i++)
        net::store_be(words + 4 * i, read_init_segment(start + 4 * i));
    uint64_t value = 0;
    std::memcpy(&value, words + (offset - start), bytes);
    return value;
}

/// A reset by the driver ends with the interface disabled and the firmware healthy.
void Function::set_interface(Interface state) {
    if (state == Interface::software_reset) {
        reset_firmware();
        syndrome_ = 0;
        state = Interface::disabled;
    }
    interface_ = state;
}

void Function::write_queue_address(uint32_t low) {
    constexpr uint32_t kAddressBits = ~0xfffu;
    set_interface(static_cast<Interface>(low >> kInterfaceShift & kInterfaceMask));
    commands_.set_base(uint64_t{queue_address_high_} << 32 | (low & kAddressBits));
}

void Function::write_init_segment(uint32_t at, uint32_t value) {
    switch (at) {
    case kQueueAddressHigh: queue_address_high_ = value; break;
    case kQueueAddressLow: write_queue_address(value); break;
    case kCommandDoorbell:
        if (syndrome_ == 0) commands_.ring_doorbell(value);
        break;
    default: break;
    }
}

/// RQ, CQ and virtio doorbells need no action here: the device threads read the records and rings
/// in memory. SQs may sleep until they are rung.
void Function::write_uar(uint32_t at, uint32_t value) {
    constexpr uint32_t kEqnShift = 24, kIndexMask = 0xffffff;
    const uint32_t offset = at % BarLayout::kPage;
    if (offset == kEqArm || offset == kEqUpdate)
        events_.ring_doorbell(at / BarLayout::kPage, value >> kEqnShift, value & kIndexMask,
                              offset == kEqArm);
    using namespace core::mlx5_rings;
    const uint32_t in_buffer = offset % kSendRegisterStride;
    if (offset < kSendRegistersAt || in_buffer >= sizeof(uint64_t)) return;
    const uint32_t index = (offset - kSendRegistersAt) / kSendRegisterStride;
    if (index >= core::SendRegisters::kCount) return;
    if (const auto registers = firmware_.registers_of(at / BarLayout::kPage))
        registers->write(index, in_buffer / sizeof value, net::to_be(value));
}

void Function::bar_write(uint64_t at, uint64_t value, uint32_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes = std::min<uint32_t>(bytes, 8);
    if (at >= BarLayout::kBytes) return;
    const auto offset = static_cast<uint32_t>(at);
    if (offset >= BarLayout::kMsixTable &&
        offset < BarLayout::kMsixTable + Interrupts::kTableBytes) {
        interrupts_.write_table(offset - BarLayout::kMsixTable, value, bytes);
        return;
    }
    if (offset % 4 != 0 || bytes < 4) return; // registers are words
    for (uint32_t i = 0; i + 4 <= bytes; i += 4) {
        const auto word = net::to_be(static_cast<uint32_t>(value >> (8 * i)));
        if (offset < kInitSegmentEnd)
            write_init_segment(offset + i, word);
        else if (offset >= BarLayout::kFirstUar * BarLayout::kPage && offset < BarLayout::kVars)
            write_uar(offset + i, word);
    }
}

void Function::fail(uint8_t syndrome) {
    const std::lock_guard lock(mutex_);
    reset_firmware();
    syndrome_ = syndrome;
}

void Function::reset() {
    const std::lock_guard lock(mutex_);
    reset_firmware();
    interrupts_.reset();
    config_.reset();
    commands_.set_base(0);
    interface_ = Interface::full;
    syndrome_ = 0;
}

} // namespace softhca::pci
