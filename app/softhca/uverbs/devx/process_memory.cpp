// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/uverbs/devx/process_memory.hpp"

#include "app/softhca/uverbs/user_memory.hpp"

namespace softhca::uverbs::devx {

std::byte* ProcessMemory::translate(uint64_t address, uint64_t size) const {
    auto* const first = reinterpret_cast<std::byte*>(address);
    return is_mapped(first, size, true) ? first : nullptr;
}

std::optional<core::DmaArea> ProcessMemory::area(std::span<const uint64_t> pages,
                                                 uint8_t page_shift, uint64_t offset,
                                                 uint64_t length) const {
    const uint64_t page = uint64_t{1} << page_shift, first = pages.empty() ? 0 : pages[0];
    const uint64_t start = (first & ~(page - 1)) + offset;
    for (size_t i = 0; i < pages.size(); i++)
        if ((pages[i] & ~(page - 1)) != (first & ~(page - 1)) + i * page) return {};
    if (length == 0 || offset + length > pages.size() * page) return {};
    return core::DmaArea::contiguous(reinterpret_cast<void*>(start), length);
}

} // namespace softhca::uverbs::devx
