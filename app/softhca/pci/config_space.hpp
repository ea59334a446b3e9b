// SPDX-License-Identifier: BSD-3-Clause
// PCI configuration space of a ConnectX-5 look-alike: header, PCI Express and MSI-X capability.
#pragma once

#include "app/softhca/prm/virtio.hpp"

#include <array>
#include <cstdint>

namespace softhca::pci {

/// BAR 0 holds everything: initialization segment, MSI-X table, UAR pages, VAR pages.
struct BarLayout {
    static constexpr uint32_t kBytes = prm::kBarBytes;
    static constexpr uint32_t kMsixTable = 0x4000;
    static constexpr uint32_t kMsixPending = 0x6000;
    static constexpr uint32_t kVectors = 32;
    static constexpr uint32_t kFirstUar = 0x100; ///< UAR number = BAR page number
    static constexpr uint32_t kVars = prm::kVarsAt;
    static constexpr uint32_t kPage = 4096;
};

class ConfigSpace {
  public:
    static constexpr uint32_t kBytes = 256;

    explicit ConfigSpace(uint16_t pci_device);
    /// Little-endian, `bytes` 1 to 4. Outside the space: all ones, as from an empty slot.
    [[nodiscard]] uint32_t read(uint32_t at, uint32_t bytes) const;
    void write(uint32_t at, uint32_t value, uint32_t bytes);
    void reset();

    [[nodiscard]] uint32_t bar0() const;
    [[nodiscard]] bool msix_enabled() const;

  private:
    void put16(uint32_t at, uint16_t value, uint16_t writable = 0);
    void put32(uint32_t at, uint32_t value, uint32_t writable = 0);

    uint16_t device_;
    std::array<uint8_t, kBytes> bytes_{};
    std::array<uint8_t, kBytes> writable_{};
};

} // namespace softhca::pci
