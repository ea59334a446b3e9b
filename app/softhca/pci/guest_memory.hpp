// SPDX-License-Identifier: BSD-3-Clause
// The guest's memory as the device reaches it by DMA.
#pragma once

#include "app/softhca/prm/memory.hpp"
#include "common/result.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace softhca::pci {

/// Translates guest-physical addresses. Files behind the memory are mapped whole, once, and stay
/// mapped until the process ends: returned pointers stay valid whatever the guest or its firmware
/// does to the memory map. Used by the transport's thread only.
class GuestMemory final : public prm::Memory {
  public:
    /// Forgets the memory map (not the mappings).
    void clear() { regions_.clear(); }
    /// Maps `size` bytes of the file, from `offset` on, at guest address `address`. Does not take
    /// ownership of the descriptor.
    [[nodiscard]] Result<void> add(int fd, uint64_t offset, uint64_t address, uint64_t size);
    [[nodiscard]] bool overlaps(uint64_t address, uint64_t size) const;
    /// Removes the range, or the part of it that exists.
    void remove(uint64_t address, uint64_t size);

    [[nodiscard]] std::byte* translate(uint64_t address, uint64_t size) const override;
    [[nodiscard]] std::optional<core::DmaArea> area(std::span<const uint64_t> pages,
                                                    uint8_t page_shift, uint64_t offset,
                                                    uint64_t length) const override;
    [[nodiscard]] core::DmaArea everything() const override;

  private:
    struct Region {
        uint64_t address;
        uint64_t size;
        std::byte* host;
    };
    struct Mapping {
        std::byte* base;
        uint64_t size;
    };

    std::vector<Region> regions_; ///< by address; neighbours in guest and host are one
    std::map<std::pair<uint64_t, uint64_t>, Mapping> files_; ///< by device and inode
};

} // namespace softhca::pci
