// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/function.hpp"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace softhca::pci {
namespace {

// Initialization segment (mlx5_init_seg of <linux/mlx5/device.h>), big-endian words.
constexpr uint32_t kFirmwareRevision = 0x00, kInterfaceAndSubminor = 0x04;
constexpr uint32_t kQueueAddressHigh = 0x10, kQueueAddressLow = 0x14, kCommandDoorbell = 0x18;
constexpr uint32_t kTimerHigh = 0x1000, kTimerLow = 0x1004, kHealthCounter = 0x1010;
constexpr uint32_t kInitSegmentEnd = 0x4000;
constexpr uint32_t kQueueSizes = CommandQueue::kLogSlots << 4 | CommandQueue::kLogStride;

// Firmware version that we pretend to have: 16.35.4000.
constexpr uint32_t kMajor = 16, kMinor = 35, kSubminor = 4000;

// Doorbells of a UAR page.
constexpr uint32_t kEqArm = 0x40, kEqUpdate = 0x48;

uint64_t clock_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

} // namespace

void Function::config_write(uint32_t at, uint32_t value, uint32_t bytes) {
    config_.write(at, value, bytes);
    interrupts_.set_enabled(config_.msix_enabled());
}

uint32_t Function::read_init_segment(uint32_t at) const {
    constexpr uint64_t kHealthPeriodNs = 100'000'000; // the driver looks every two seconds
    switch (at) {
    case kFirmwareRevision: return kMinor << 16 | kMajor;
    case kInterfaceAndSubminor: return CommandQueue::kInterfaceRevision << 16 | kSubminor;
    case kQueueAddressHigh: return static_cast<uint32_t>(commands_.base() >> 32);
    case kQueueAddressLow: return static_cast<uint32_t>(commands_.base()) | kQueueSizes;
    case kTimerHigh: return static_cast<uint32_t>(clock_ns() >> 32);
    case kTimerLow: return static_cast<uint32_t>(clock_ns());
    case kHealthCounter: return static_cast<uint32_t>(clock_ns() / kHealthPeriodNs) & 0xffffff;
    default: return 0; // also: initialization is over, health is good
    }
}

uint64_t Function::bar_read(uint64_t at, uint32_t bytes) {
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

void Function::write_init_segment(uint32_t at, uint32_t value) {
    constexpr uint32_t kAddressBits = ~0xfffu;
    switch (at) {
    case kQueueAddressHigh: queue_address_high_ = value; break;
    case kQueueAddressLow:
        commands_.set_base(uint64_t{queue_address_high_} << 32 | (value & kAddressBits));
        break;
    case kCommandDoorbell: commands_.ring_doorbell(value); break;
    default: break;
    }
}

/// SQ, RQ and CQ doorbells need nothing here: the device threads read the records in memory.
void Function::write_uar(uint32_t at, uint32_t value) {
    constexpr uint32_t kEqnShift = 24, kIndexMask = 0xffffff;
    const uint32_t offset = at % BarLayout::kPage;
    if (offset == kEqArm || offset == kEqUpdate)
        firmware_.events.ring_doorbell(value >> kEqnShift, value & kIndexMask, offset == kEqArm);
}

void Function::bar_write(uint64_t at, uint64_t value, uint32_t bytes) {
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
        else if (offset >= BarLayout::kFirstUar * BarLayout::kPage)
            write_uar(offset + i, word);
    }
}

void Function::reset() {
    firmware_.reset();
    interrupts_.reset();
    config_.reset();
    commands_.set_base(0);
}

} // namespace softhca::pci
