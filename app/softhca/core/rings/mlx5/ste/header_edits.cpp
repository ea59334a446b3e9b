// SPDX-License-Identifier: BSD-3-Clause
// Header edits in ICM: fields of 64 bits, which headers of different kinds share.
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "app/softhca/core/rings/mlx5/ste/layout.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace softhca::core::mlx5_rings {
namespace {

/// Numbers of fields. Source: dr_ste_v0.c, DR_STE_V0_ACTION_MDFY_FLD_*.
enum class HwField : uint8_t {
    l2_0 = 0x00,
    l2_1 = 0x01,
    l2_2 = 0x02,
    l3_0 = 0x03,
    l3_1 = 0x04,
    l3_2 = 0x05,
    l3_3 = 0x06,
    l3_4 = 0x07,
    l4_0 = 0x08,
    l4_1 = 0x09,
    reg_0 = 0x0c,
    reg_1 = 0x0d,
    reg_2 = 0x0e,
    metadata = 0x16,
};

/// Bits first..last of a field, counted from its lowest one, are one of ours, in packets that have
/// it.
struct Row {
    HwField hw;
    uint8_t first, last;
    EditField field;
};
constexpr EditField after(EditField first, unsigned words) {
    return static_cast<EditField>(static_cast<unsigned>(first) + words);
}
constexpr Row kRows[] = {
    {HwField::l2_0, 16, 47, EditField::dst_mac_high},
    {HwField::l2_0, 0, 15, EditField::dst_mac_low},
    {HwField::l2_1, 16, 47, EditField::src_mac_high},
    {HwField::l2_1, 0, 15, EditField::src_mac_low},
    {HwField::l2_2, 0, 15, EditField::vlan_tci},
    {HwField::l2_2, 32, 47, EditField::ether_type},
    {HwField::l2_2, 48, 49, EditField::vlan_type}, // as a qualifier
    {HwField::l3_0, 0, 31, EditField::src_ipv4},
    {HwField::l3_0, 32, 63, EditField::dst_ipv4},
    {HwField::l3_0, 32, 63, after(EditField::dst_ipv6, 0)},
    {HwField::l3_0, 0, 31, after(EditField::dst_ipv6, 1)},
    {HwField::l3_1, 0, 5, EditField::ip_dscp},
    {HwField::l3_1, 6, 7, EditField::ip_ecn},
    {HwField::l3_1, 8, 15, EditField::ipv4_ttl},
    {HwField::l3_1, 8, 15, EditField::ipv6_hop_limit},
    {HwField::l3_2, 32, 63, after(EditField::dst_ipv6, 2)},
    {HwField::l3_2, 0, 31, after(EditField::dst_ipv6, 3)},
    {HwField::l3_3, 32, 63, after(EditField::src_ipv6, 0)},
    {HwField::l3_3, 0, 31, after(EditField::src_ipv6, 1)},
    {HwField::l3_4, 32, 63, after(EditField::src_ipv6, 2)},
    {HwField::l3_4, 0, 31, after(EditField::src_ipv6, 3)},
    {HwField::l4_0, 0, 15, EditField::tcp_src_port},
    {HwField::l4_0, 0, 15, EditField::udp_src_port},
    {HwField::l4_0, 16, 31, EditField::tcp_dst_port},
    {HwField::l4_0, 16, 31, EditField::udp_dst_port},
    {HwField::l4_0, 48, 56, EditField::tcp_flags},
    {HwField::l4_1, 32, 63, EditField::tcp_sequence},
    {HwField::l4_1, 0, 31, EditField::tcp_ack},
    {HwField::reg_0, 32, 63, after(EditField::reg_c, 0)},
    {HwField::reg_0, 0, 31, after(EditField::reg_c, 1)},
    {HwField::reg_1, 32, 63, after(EditField::reg_c, 2)},
    {HwField::reg_1, 0, 31, after(EditField::reg_c, 3)},
    {HwField::reg_2, 32, 63, after(EditField::reg_c, 4)},
    {HwField::reg_2, 0, 31, after(EditField::reg_c, 5)},
    {HwField::metadata, 0, 31, EditField::reg_a},
    {HwField::metadata, 32, 63, EditField::reg_b},
};

uint32_t low_bits(unsigned count) { return count >= 32 ? ~0u : (1u << count) - 1; }

/// Bits of a field.
struct Range {
    uint8_t field;
    unsigned first, length;
    [[nodiscard]] unsigned last() const { return first + length - 1; }
};

/// The part of the range that is in the row, as a part of our field.
std::optional<FieldPart> part_in(const Row& row, const Range& range) {
    if (static_cast<uint8_t>(row.hw) != range.field) return {};
    const unsigned first = std::max<unsigned>(row.first, range.first);
    const unsigned last = std::min<unsigned>(row.last, range.last());
    if (first > last) return {};
    return FieldPart{row.field, static_cast<uint8_t>(first - row.first),
                     static_cast<uint8_t>(last - first + 1)};
}

void read_value(HeaderEdit::Kind kind, const Range& range, uint32_t data,
                std::vector<HeaderEdit>& edits) {
    constexpr uint32_t kService = 1;
    for (const Row& row : kRows) {
        const auto part = part_in(row, range);
        if (!part) continue;
        const unsigned skipped = row.first + part->offset - range.first;
        HeaderEdit edit{.kind = kind, .to = *part, .from = {}};
        edit.value = data >> skipped & low_bits(part->length);
        if (row.field == EditField::vlan_type) {
            edit.to = {row.field, 0, 16};
            edit.value = edit.value == kService ? net::kEtherQinq : net::kEtherVlan;
        }
        edits.push_back(edit);
    }
}

/// Between fields whole: which ones they are, the packet decides.
void read_copy(const Range& to, const Range& from, std::vector<HeaderEdit>& edits) {
    for (const Row& target : kRows) {
        const auto to_part = part_in(target, to);
        if (!to_part || to_part->length != to.length) continue;
        for (const Row& source : kRows) {
            const auto from_part = part_in(source, from);
            if (from_part && from_part->length == from.length)
                edits.push_back(
                    {.kind = HeaderEdit::Kind::copy, .to = *to_part, .from = *from_part});
        }
    }
}

} // namespace

void read_edit(ste::RawEdit raw, std::vector<HeaderEdit>& edits) {
    RawHeaderEdit edit;
    std::memcpy(&edit, raw.data(), sizeof edit);
    const unsigned given = edit.length & kShiftMask;
    const Range to{edit.field, edit.shift & unsigned{kShiftMask}, given == 0 ? 32 : given};
    switch (static_cast<EditOpcode>(edit.opcode)) {
    case EditOpcode::none: break;
    case EditOpcode::set: read_value(HeaderEdit::Kind::set, to, edit.data, edits); break;
    case EditOpcode::add: read_value(HeaderEdit::Kind::add, to, edit.data, edits); break;
    case EditOpcode::copy: {
        const uint32_t word = edit.data;
        const Range from{static_cast<uint8_t>(word >> 16), word >> 8 & kShiftMask, to.length};
        read_copy(to, from, edits);
        break;
    }
    }
}

} // namespace softhca::core::mlx5_rings
