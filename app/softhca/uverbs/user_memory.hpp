// SPDX-License-Identifier: BSD-3-Clause
// Checks of addresses that programs pass in, before the device uses them.
#pragma once

#include "app/softhca/core/dma.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace softhca::uverbs {

/// True when the program may read the range, and write it if `write`: what copy_from_user and
/// copy_to_user would accept. Fast.
[[nodiscard]] bool is_mapped(const void* address, size_t length, bool write = false);

/// Caches what one call of the program has found mapped. A command's pieces are checked several
/// times, and most are in the same stack pages: repeated checks cost no system call. If another
/// thread unmaps a page meanwhile, the effect is as if it had been unmapped a moment later.
class CallMemory {
  public:
    /// As is_mapped().
    [[nodiscard]] bool has(const void* address, size_t length, bool write = false);

  private:
    struct Pages {
        uint64_t first = 0, end = 0;
        bool writable = false;
    };
    std::array<Pages, 4> found_{}; ///< the latest ones
    size_t next_ = 0;
};

/// True when the program itself may read the whole range, and write it if `write`: what pinning the
/// pages for a device requires. Reads /proc/self/maps, so not for every call.
[[nodiscard]] bool is_accessible(uint64_t address, uint64_t length, bool write);

/// A ring or region of the program as device memory; empty when it is not accessible.
[[nodiscard]] std::optional<core::DmaArea> user_area(uint64_t address, uint64_t length, bool write);

/// Whether a doorbell record may be there: the device would refuse another address.
[[nodiscard]] constexpr bool is_doorbell_address(uint64_t address) {
    constexpr uint64_t kBytes = 8;
    return address % kBytes == 0;
}
/// A doorbell record of the program, at such an address, or null when it is not writable.
template <class T> [[nodiscard]] T* user_doorbell(uint64_t address) {
    if (!is_accessible(address, sizeof(T), true)) return nullptr;
    return reinterpret_cast<T*>(address);
}

} // namespace softhca::uverbs
