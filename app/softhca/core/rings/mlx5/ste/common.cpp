// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/ste/common.hpp"

#include "app/softhca/core/rings/mlx5/ste/format.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace softhca::core::mlx5_rings {
namespace {

uint32_t low_bits(unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// The part of the range that the row covers, as a part of our field.
std::optional<FieldPart> part_in(const EditRow& row, const EditRange& range) {
    if (row.hw != range.field) return {};
    const unsigned first = std::max<unsigned>(row.first, range.first);
    const unsigned last = std::min<unsigned>(row.last, range.last());
    if (first > last) return {};
    return FieldPart{row.field, static_cast<uint8_t>(first - row.first),
                     static_cast<uint8_t>(last - first + 1)};
}

void add(const HeaderEdit& edit, std::vector<HeaderStep>& steps) {
    HeaderStep step{};
    step.edit = edit;
    steps.push_back(step);
}

} // namespace

void add_value_edits(std::span<const EditRow> rows, HeaderEdit::Kind kind, const EditRange& to,
                     uint32_t data, std::vector<HeaderStep>& steps) {
    constexpr uint32_t kService = 1;
    for (const EditRow& row : rows) {
        const auto part = part_in(row, to);
        if (!part) continue;
        const unsigned skipped = row.first + part->offset - to.first;
        HeaderEdit edit{.kind = kind, .to = *part, .from = {}};
        edit.value = skipped < 32 ? data >> skipped & low_bits(part->length) : 0;
        if (row.field == EditField::vlan_type) { // the format has a qualifier there
            edit.to = {row.field, 0, 16};
            edit.value = edit.value == kService ? net::kEtherQinq : net::kEtherVlan;
        }
        add(edit, steps);
    }
}

void add_copy_edits(std::span<const EditRow> rows, const EditRange& to, const EditRange& from,
                    std::vector<HeaderStep>& steps) {
    for (const EditRow& target : rows) {
        const auto to_part = part_in(target, to);
        if (!to_part || to_part->length != to.length) continue;
        for (const EditRow& source : rows) {
            const auto from_part = part_in(source, from);
            if (from_part && from_part->length == from.length)
                add({.kind = HeaderEdit::Kind::copy, .to = *to_part, .from = *from_part}, steps);
        }
    }
}

// ---------------------------------------------------------------- tables

ste::Next next_table(uint64_t word) {
    const uint64_t index = word / (kNextFlags + 1);
    const uint64_t entries = index & (~index + 1);
    return {.address = (index & ~entries) * (kNextFlags + 1),
            .entries = static_cast<uint32_t>(entries)};
}

uint32_t crc_of(std::span<const std::byte> tag) {
    constexpr uint32_t kPolynomial = 0xedb88320;
    static constexpr auto kTable = [] {
        std::array<uint32_t, 256> table{};
        for (uint32_t byte = 0; byte < table.size(); byte++) {
            table[byte] = byte;
            for (int bit = 0; bit < 8; bit++)
                table[byte] = table[byte] >> 1 ^ (table[byte] & 1 ? kPolynomial : 0);
        }
        return table;
    }();
    uint32_t crc = 0;
    for (const std::byte byte : tag)
        crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
    return __builtin_bswap32(crc);
}

uint32_t crc_of_bytes(const ste::Tag& tag, uint16_t mask) {
    std::array<std::byte, kShortTagBytes> hashed{};
    for (size_t i = 0; i < hashed.size(); i++)
        if (mask >> (hashed.size() - 1 - i) & 1) hashed[i] = tag[i];
    return crc_of(hashed);
}

// ---------------------------------------------------------------- the formats

const ste::Format& ste_format(uint8_t version) {
    return version == 0 ? ste_format_0() : ste_format_1();
}

} // namespace softhca::core::mlx5_rings
