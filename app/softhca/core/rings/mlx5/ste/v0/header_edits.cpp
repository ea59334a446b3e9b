// SPDX-License-Identifier: BSD-3-Clause
// Header edits in ICM: fields of 64 bits.
#include "app/softhca/core/rings/mlx5/ste/v0/layout.hpp"

#include <cstring>

namespace softhca::core::mlx5_rings::v0 {
namespace {

/// Numbers of fields. Source: dr_ste_v0.c, DR_STE_V0_ACTION_MDFY_FLD_*.
namespace hw {
enum : uint8_t {
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
} // namespace hw

constexpr EditRow kRows[] = {
    {hw::l2_0, 16, 47, EditField::dst_mac_high},
    {hw::l2_0, 0, 15, EditField::dst_mac_low},
    {hw::l2_1, 16, 47, EditField::src_mac_high},
    {hw::l2_1, 0, 15, EditField::src_mac_low},
    {hw::l2_2, 0, 15, EditField::vlan_tci},
    {hw::l2_2, 32, 47, EditField::ether_type},
    {hw::l2_2, 48, 49, EditField::vlan_type}, // as a qualifier
    {hw::l3_0, 0, 31, EditField::src_ipv4},
    {hw::l3_0, 32, 63, EditField::dst_ipv4},
    {hw::l3_0, 32, 63, after(EditField::dst_ipv6, 0)},
    {hw::l3_0, 0, 31, after(EditField::dst_ipv6, 1)},
    {hw::l3_1, 0, 5, EditField::ip_dscp},
    {hw::l3_1, 6, 7, EditField::ip_ecn},
    {hw::l3_1, 8, 15, EditField::ipv4_ttl},
    {hw::l3_1, 8, 15, EditField::ipv6_hop_limit},
    {hw::l3_2, 32, 63, after(EditField::dst_ipv6, 2)},
    {hw::l3_2, 0, 31, after(EditField::dst_ipv6, 3)},
    {hw::l3_3, 32, 63, after(EditField::src_ipv6, 0)},
    {hw::l3_3, 0, 31, after(EditField::src_ipv6, 1)},
    {hw::l3_4, 32, 63, after(EditField::src_ipv6, 2)},
    {hw::l3_4, 0, 31, after(EditField::src_ipv6, 3)},
    {hw::l4_0, 0, 15, EditField::tcp_src_port},
    {hw::l4_0, 0, 15, EditField::udp_src_port},
    {hw::l4_0, 16, 31, EditField::tcp_dst_port},
    {hw::l4_0, 16, 31, EditField::udp_dst_port},
    {hw::l4_0, 48, 56, EditField::tcp_flags},
    {hw::l4_1, 32, 63, EditField::tcp_sequence},
    {hw::l4_1, 0, 31, EditField::tcp_ack},
    {hw::reg_0, 32, 63, after(EditField::reg_c, 0)},
    {hw::reg_0, 0, 31, after(EditField::reg_c, 1)},
    {hw::reg_1, 32, 63, after(EditField::reg_c, 2)},
    {hw::reg_1, 0, 31, after(EditField::reg_c, 3)},
    {hw::reg_2, 32, 63, after(EditField::reg_c, 4)},
    {hw::reg_2, 0, 31, after(EditField::reg_c, 5)},
    {hw::metadata, 0, 31, EditField::reg_a},
    {hw::metadata, 32, 63, EditField::reg_b},
};

} // namespace

bool read_edit(ste::RawEdit raw, std::vector<HeaderStep>& steps) {
    RawHeaderEdit edit;
    std::memcpy(&edit, raw.data(), sizeof edit);
    const unsigned given = edit.length & kShiftMask;
    const EditRange to{edit.field, edit.shift & unsigned{kShiftMask}, given == 0 ? 32 : given};
    switch (static_cast<EditOpcode>(edit.opcode)) {
    case EditOpcode::none: break;
    case EditOpcode::set:
        add_value_edits(kRows, HeaderEdit::Kind::set, to, edit.data, steps);
        break;
    case EditOpcode::add:
        add_value_edits(kRows, HeaderEdit::Kind::add, to, edit.data, steps);
        break;
    case EditOpcode::copy: {
        const uint32_t word = edit.data;
        const EditRange from{static_cast<uint8_t>(word >> 16), word >> 8 & kShiftMask, to.length};
        add_copy_edits(kRows, to, from, steps);
        break;
    }
    }
    return true;
}

} // namespace softhca::core::mlx5_rings::v0
