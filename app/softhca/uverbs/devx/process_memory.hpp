// SPDX-License-Identifier: BSD-3-Clause
// The program's own memory as firmware commands see it: bus addresses are its virtual addresses.
#pragma once

#include "app/softhca/prm/memory.hpp"

namespace softhca::uverbs::devx {

/// Used only for umems, whose memory has already been checked and pinned.
class ProcessMemory final : public prm::Memory {
  public:
    [[nodiscard]] std::byte* translate(uint64_t address, uint64_t size) const override;
    /// Consecutive pages.
    [[nodiscard]] std::optional<core::DmaArea> area(std::span<const uint64_t> pages,
                                                    uint8_t page_shift, uint64_t offset,
                                                    uint64_t length) const override;
    [[nodiscard]] core::DmaArea everything() const override { return {}; }
};

} // namespace softhca::uverbs::devx
