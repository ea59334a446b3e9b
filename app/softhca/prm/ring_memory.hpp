// SPDX-License-Identifier: BSD-3-Clause
// The location of rings, doorbell records and regions: in pages that the command lists, or in a
// umem.
#pragma once

#include "app/softhca/prm/firmware.hpp"

namespace softhca::prm {

/// What a command says about a umem. Without `valid`, the command uses pages and addresses instead.
struct UmemPlace {
    bool valid = false;
    core::Number id = 0;
    uint64_t offset = 0;
};

// Fields for umems, which are reserved bits in the kernel's header. Source: mlx5_prm.h of DPDK.
inline constexpr Field kWqRecordUmem{0x140, 32}, kWqUmem{0x160, 32}, kWqUmemOffset{0x180, 64};
inline constexpr Field kCqRecordUmem{0x20, 32}; ///< in the CQ context
/// In CREATE_CQ and MODIFY_CQ, before cq_umem_valid.
inline constexpr Field kCqUmemOffset{0x280, 64}, kCqUmem{0x2c0, 32};
inline constexpr Field kQpUmem{0x840, 32};       ///< in CREATE_QP
inline constexpr Field kQpRecordUmem{0x720, 32}; ///< in the QP context
inline constexpr Field kMkeyUmem{0x320, 32}, kMkeyUmemOffset{0x340, 64};

/// Pages that follow a context: 2^(12 + log_page) bytes each; page_offset in 64ths of one.
struct PageList {
    size_t at = 0; ///< in the command
    uint8_t log_page = 0;
    uint64_t page_offset = 0;
};

/// `bytes` of a umem; empty when it does not contain them, or must be writable and is not.
[[nodiscard]] std::optional<core::DmaArea>
umem_part(const Firmware& firmware, const UmemPlace& place, uint64_t bytes, bool write);
/// A ring; the device writes to those of CQs.
[[nodiscard]] std::optional<core::DmaArea> ring_area(const Firmware& firmware,
                                                     const Command& command, const UmemPlace& umem,
                                                     const PageList& pages, uint64_t bytes,
                                                     bool write);
/// A doorbell record of type T, aligned; in a umem, its address is the offset. Null: there is none,
/// or the device would write to it and may not.
template <class T>
[[nodiscard]] T* doorbell_record(const Firmware& firmware, const UmemPlace& place, bool write) {
    if (place.offset % sizeof(T) != 0) return nullptr;
    if (!place.valid)
        return reinterpret_cast<T*>(firmware.memory.translate(place.offset, sizeof(T)));
    const auto part = umem_part(firmware, place, sizeof(T), write);
    // A umem may begin at any address, so an aligned offset is not enough.
    return part && part->holds(sizeof(T), sizeof(T)) ? reinterpret_cast<T*>(part->at(0)) : nullptr;
}

/// Adds the umem to what an object uses, if it names one.
inline void add_use(std::vector<Ref>& uses, const UmemPlace& place) {
    if (place.valid) uses.push_back({Kind::umem, place.id});
}

} // namespace softhca::prm
