// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/ring_memory.hpp"

namespace softhca::prm {

std::optional<core::DmaArea> umem_part(const Firmware& firmware, const UmemPlace& place,
                                       uint64_t bytes, bool write) {
    const auto found = firmware.umems.find(place.id);
    if (found == firmware.umems.end() || (write && !found->second.writable)) return {};
    const core::DmaArea& whole = found->second.memory;
    if (bytes == 0 || place.offset > whole.length() || bytes > whole.length() - place.offset)
        return {};
    return whole.part(place.offset, bytes);
}

std::optional<core::DmaArea> ring_area(const Firmware& firmware, const Command& command,
                                       const UmemPlace& umem, const PageList& pages, uint64_t bytes,
                                       bool write) {
    if (umem.valid) return umem_part(firmware, umem, bytes, write);
    constexpr uint8_t kLogPage = 12, kLogOffsetUnits = 6;
    const auto shift = static_cast<uint8_t>(kLogPage + pages.log_page);
    const uint64_t offset = pages.page_offset << (shift - kLogOffsetUnits);
    const uint64_t count = (offset + bytes + (uint64_t{1} << shift) - 1) >> shift;
    return firmware.memory.area(command.pages(pages.at, count), shift, offset, bytes);
}

} // namespace softhca::prm
