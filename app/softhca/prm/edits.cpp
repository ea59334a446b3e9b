// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/edits.hpp"

#include "common/net/endian.hpp"

namespace softhca::prm {
namespace {

using core::EditField;
using core::FieldPart;
using core::HeaderEdit;

/// Consecutive numbers of the PRM (Linux: MLX5_ACTION_IN_FIELD_*), like our fields.
struct FieldRun {
    uint16_t first;
    uint8_t count;
    EditField field;
};
constexpr FieldRun kFields[] = {
    {0x01, 1, EditField::src_mac_high}, {0x02, 1, EditField::src_mac_low},
    {0x03, 1, EditField::ether_type},   {0x04, 1, EditField::dst_mac_high},
    {0x05, 1, EditField::dst_mac_low},  {0x06, 1, EditField::ip_dscp},
    {0x07, 1, EditField::tcp_flags},    {0x08, 1, EditField::tcp_src_port},
    {0x09, 1, EditField::tcp_dst_port}, {0x0a, 1, EditField::ipv4_ttl},
    {0x0b, 1, EditField::udp_src_port}, {0x0c, 1, EditField::udp_dst_port},
    {0x0d, 4, EditField::src_ipv6},     {0x11, 4, EditField::dst_ipv6},
    {0x15, 1, EditField::src_ipv4},     {0x16, 1, EditField::dst_ipv4},
    {0x17, 1, EditField::vlan_id},      {0x47, 1, EditField::ipv6_hop_limit},
    {0x49, 1, EditField::reg_a},        {0x50, 1, EditField::reg_b},
    {0x51, 8, EditField::reg_c},        {0x59, 1, EditField::tcp_sequence},
    {0x5b, 1, EditField::tcp_ack},      {0x73, 1, EditField::ip_ecn},
};

std::optional<EditField> field_of(uint32_t number) {
    for (const FieldRun& run : kFields)
        if (number >= run.first && number < uint32_t{run.first} + run.count)
            return static_cast<EditField>(static_cast<uint32_t>(run.field) + number - run.first);
    return {};
}

// A word of the PRM: four reserved or type bits, then field, offset and length.
constexpr uint32_t kTypeShift = 28, kFieldShift = 16, kOffsetShift = 8;
constexpr uint32_t kFieldMask = 0xfff, kBitMask = 0x1f;

/// A length of zero means 32.
std::optional<FieldPart> part_of(uint32_t word, uint32_t length) {
    const auto field = field_of(word >> kFieldShift & kFieldMask);
    if (!field) return {};
    return FieldPart{*field, static_cast<uint8_t>(word >> kOffsetShift & kBitMask),
                     static_cast<uint8_t>(length == 0 ? 32 : length)};
}

std::optional<HeaderEdit> read_edit(const std::byte* prm) {
    constexpr uint32_t kSet = 1, kAdd = 2, kCopy = 3;
    const auto first = net::load_be<uint32_t>(prm), second = net::load_be<uint32_t>(prm + 4);
    const uint32_t length = first & kBitMask;
    const auto named = part_of(first, length);
    if (!named) return {};
    HeaderEdit edit;
    edit.to = *named;
    edit.value = second;
    switch (first >> kTypeShift) {
    case kSet: edit.kind = HeaderEdit::Kind::set; break;
    case kAdd:
        edit.kind = HeaderEdit::Kind::add;
        edit.to.offset = 0, edit.to.length = 32;
        break;
    case kCopy: {
        edit.kind = HeaderEdit::Kind::copy;
        edit.from = *named;
        const auto to = part_of(second, length);
        if (!to) return {};
        edit.to = *to;
        edit.value = 0;
        break;
    }
    default: return {};
    }
    return edit;
}

} // namespace

std::optional<std::vector<HeaderEdit>> read_header_edits(std::span<const std::byte> prm) {
    if (prm.empty() || prm.size() % kEditBytes != 0) return {};
    std::vector<HeaderEdit> edits;
    for (size_t at = 0; at < prm.size(); at += kEditBytes) {
        const auto edit = read_edit(prm.data() + at);
        if (!edit) return {};
        edits.push_back(*edit);
    }
    return edits;
}

} // namespace softhca::prm
