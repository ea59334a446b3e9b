// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/pci/config_space.hpp"

#include "app/softhca/identity.hpp"

namespace softhca::pci {
namespace {

constexpr uint32_t kBar0 = 0x10, kSubsystem = 0x2c;
constexpr uint32_t kExpress = 0x60, kMsix = 0x9c;

} // namespace

ConfigSpace::ConfigSpace(uint16_t pci_device) : device_(pci_device) { reset(); }

void ConfigSpace::reset() {
    bytes_ = {};
    writable_ = {};
    put16(0x00, kPciVendor);
    put16(0x02, device_);
    put16(0x04, 0, 0x0546); // command: memory, bus master, parity, SERR, INTx off
    put16(0x06, 0x0010);    // status: has capabilities
    put16(0x0a, 0x0200);    // class: Ethernet controller
    bytes_[0x0c] = 0;
    writable_[0x0c] = 0xff;                      // cache line size
    put32(kBar0, 0x8, ~(BarLayout::kBytes - 1)); // memory, 32 bit, prefetchable
    put16(kSubsystem, kPciVendor);
    put16(kSubsystem + 2, kPciSubsystem);
    bytes_[0x34] = kExpress;
    writable_[0x3c] = 0xff; // interrupt line; no pin: MSI-X only

    put16(kExpress, static_cast<uint16_t>(0x10 | kMsix << 8));
    put16(kExpress + 2, 0x0002);       // version 2, endpoint
    put32(kExpress + 4, 0x8002);       // 512-byte payload, role-based errors
    put16(kExpress + 8, 0, 0x7fff);    // device control
    put32(kExpress + 0xc, 0x00400103); // link: x16, 8 GT/s
    put16(kExpress + 0x12, 0x0103);    // link status
    put32(kExpress + 0x2c, 0x0e);      // supported speeds: up to 8 GT/s

    put16(kMsix, 0x11);
    put16(kMsix + 2, BarLayout::kVectors - 1, 0xc000);
    put32(kMsix + 4, BarLayout::kMsixTable);
    put32(kMsix + 8, BarLayout::kMsixPending);
}

void ConfigSpace::put16(uint32_t at, uint16_t value, uint16_t writable) {
    for (uint32_t i = 0; i < 2; i++) {
        bytes_[at + i] = static_cast<uint8_t>(value >> (8 * i));
        writable_[at + i] = static_cast<uint8_t>(writable >> (8 * i));
    }
}

void ConfigSpace::put32(uint32_t at, uint32_t value, uint32_t writable) {
    put16(at, static_cast<uint16_t>(value), static_cast<uint16_t>(writable));
    put16(at + 2, static_cast<uint16_t>(value >> 16), static_cast<uint16_t>(writable >> 16));
}

uint32_t ConfigSpace::read(uint32_t at, uint32_t bytes) const {
    uint32_t value = 0;
    for (uint32_t i = 0; i < bytes && i < 4; i++)
        value |= uint32_t{at < kBytes && at + i < kBytes ? bytes_[at + i] : uint8_t{0xff}}
                 << (8 * i);
    return value;
}

void ConfigSpace::write(uint32_t at, uint32_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes && i < 4 && at < kBytes && at + i < kBytes; i++) {
        const uint8_t mask = writable_[at + i];
        const auto given = static_cast<uint8_t>(value >> (8 * i));
        bytes_[at + i] = static_cast<uint8_t>((bytes_[at + i] & ~mask) | (given & mask));
    }
}

uint32_t ConfigSpace::bar0() const { return read(kBar0, 4) & ~0xfu; }
bool ConfigSpace::msix_enabled() const {
    const uint32_t control = read(kMsix + 2, 2);
    constexpr uint32_t kEnable = 0x8000, kMaskAll = 0x4000;
    return (control & (kEnable | kMaskAll)) == kEnable;
}

} // namespace softhca::pci
