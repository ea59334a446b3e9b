// SPDX-License-Identifier: BSD-3-Clause
// Common parts of the formats of steering entries.
#pragma once

#include "app/softhca/core/ste/format.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace softhca::core::mlx5_rings {

inline constexpr uint32_t kMissFlags = 0x3f; ///< in the bits below an entry's address
inline constexpr uint32_t kNextFlags = 0x1f; ///< in the bits below a table's address and size
inline constexpr uint32_t kEditListUnit = 64;

/// A word that refers to a table: the lowest set bit is the number of entries, the address is a
/// multiple of the table's size.
[[nodiscard]] ste::Next next_table(uint64_t word);

/// An entry's destinations and counter; these fields have the same names in all formats.
template <class Head> void read_ways(const Head& head, ste::Entry& entry) {
    entry.miss = uint64_t{head.miss_39_32} << 32 | (head.miss_31_6 & ~kMissFlags);
    entry.hit =
        next_table(uint64_t{head.next_table_39_32} << 32 | (head.next_table_31_5 & ~kNextFlags));
    entry.counter = uint32_t{head.counter_23_16} << 16 | head.counter_15_0;
}

[[nodiscard]] inline ste::Action step_of(const HeaderStep& step) {
    return {.kind = ste::Action::Kind::step, .step = step};
}

/// CRC-32 with Ethernet's reflected polynomial, without inversions, its bytes reversed.
[[nodiscard]] uint32_t crc_of(std::span<const std::byte> tag);
/// Likewise for the bytes that the mask selects, where the highest bit is the first byte; the other
/// bytes count as zeros.
[[nodiscard]] uint32_t crc_of_bytes(const ste::Tag& tag, uint16_t mask);

/// Tags of lookups that include a mask. The rest of ste::Tag is zero.
inline constexpr size_t kShortTagBytes = 16;

// ---------------------------------------------------------------- header edits

/// Bits first..last of a field of the format, counted from its lowest one, correspond to one of our
/// fields in packets that have it: headers of different kinds share fields.
struct EditRow {
    uint8_t hw;
    uint8_t first, last;
    EditField field;
};
[[nodiscard]] constexpr EditField after(EditField first, unsigned words) {
    return static_cast<EditField>(static_cast<unsigned>(first) + words);
}

/// Bits of a field of the format.
struct EditRange {
    uint8_t field;
    unsigned first, length;
    [[nodiscard]] unsigned last() const { return first + length - 1; }
};

/// Appends the edits of our fields that amount to setting the range to these bits, or adding them.
void add_value_edits(std::span<const EditRow> rows, HeaderEdit::Kind kind, const EditRange& to,
                     uint32_t data, std::vector<HeaderStep>& steps);
/// Copies between whole fields: the packet determines which ones they are.
void add_copy_edits(std::span<const EditRow> rows, const EditRange& to, const EditRange& from,
                    std::vector<HeaderStep>& steps);

} // namespace softhca::core::mlx5_rings
