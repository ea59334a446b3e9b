// SPDX-License-Identifier: BSD-3-Clause
// The memory that firmware commands refer to by address, whoever owns it.
#pragma once

#include "app/softhca/core/dma.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace softhca::prm {

/// A guest's pages, or what a process has registered. Addresses are the device's DMA addresses.
class Memory {
  public:
    virtual ~Memory() = default;

    /// Host address of `size` bytes of it, or null when not all of them exist.
    [[nodiscard]] virtual std::byte* translate(uint64_t address, uint64_t size) const = 0;
    /// A ring or memory region made of pages of 2^page_shift bytes; empty when a page is not in
    /// this memory or the pages do not hold offset + length bytes.
    [[nodiscard]] virtual std::optional<core::DmaArea> area(std::span<const uint64_t> pages,
                                                            uint8_t page_shift, uint64_t offset,
                                                            uint64_t length) const = 0;
    /// The whole address space up to the end of memory. Holes map to a scratch page.
    [[nodiscard]] virtual core::DmaArea everything() const = 0;
};

} // namespace softhca::prm
