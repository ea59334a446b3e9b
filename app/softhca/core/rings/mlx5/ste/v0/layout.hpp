// SPDX-License-Identifier: BSD-3-Clause
// Bytes of steering entries and header edits in ICM, of format 0. Source: rdma-core,
// providers/mlx5/mlx5_ifc.h: ste_general, ste_rx_steering_mult, ste_sx_transmit, ste_modify_packet;
// dr_action_hw_set, _copy.
#pragma once

#include "app/softhca/core/rings/mlx5/ste/common.hpp"
#include "common/net/endian.hpp"

#include <cstddef>

namespace softhca::core::mlx5_rings::v0 {

/// In the upper half of Ste::type.
enum class SteType : uint8_t { transmit = 1, receive = 2, modify_packet = 6 };

/// Three kinds of entries, which differ in `kind_data`, `argument` and `tunnel`.
struct Ste {
    uint8_t type; ///< SteType << 4
    uint8_t lookup;
    net::be16 byte_mask; ///< of the hash of the next table
    net::be16 next_table_63_48;
    uint8_t next_lookup;
    uint8_t next_table_39_32;
    net::be32 next_table_31_5; ///< the address, with the number of entries in the bits below it
    net::be16 kind_data;       ///< modify: number of edits; transmit: action in bits 9 to 7
    net::be16 gvmi;
    net::be32 argument; ///< receive: flow tag; modify: list of edits; transmit: tag or reformat
    uint8_t tunnel;     ///< receive, modify: action in bits 6 to 4, then its parameter
    uint8_t reserved;
    net::be16 counter_15_0;
    net::be16 miss_63_48;
    uint8_t counter_23_16;
    uint8_t miss_39_32;
    net::be32 miss_31_6; ///< and flags in the bits below
    std::array<std::byte, kShortTagBytes> tag, mask;
};
static_assert(sizeof(Ste) == ste::kEntryBytes && offsetof(Ste, kind_data) == 12 &&
              offsetof(Ste, argument) == 16 && offsetof(Ste, counter_15_0) == 22 &&
              offsetof(Ste, miss_31_6) == 28 && offsetof(Ste, tag) == 32);

inline constexpr uint32_t kFlowTagValid = 1u << 31; ///< in the argument of a receive entry

/// Receive and modify.
enum class TunnelAction : uint8_t { none, enable, decap, decap_l3, pop_vlan };
inline constexpr uint8_t kDecapWithVlan = 1; ///< parameter of decap_l3

/// Transmit.
enum class SendAction : uint8_t { none = 0, push_vlan = 1, encap_l3 = 3, encap = 4 };

enum class EditOpcode : uint8_t { none = 0, copy = 1, set = 2, add = 3 };
inline constexpr uint8_t kShiftMask = 0x3f;

/// One header edit.
struct RawHeaderEdit {
    uint8_t opcode;
    uint8_t field;  ///< the field to change
    uint8_t shift;  ///< lowest bit of it
    uint8_t length; ///< bits; set and add have 0 for 32
    net::be32 data; ///< the value; copy: field and lowest bit in bytes 1 and 2
};
static_assert(sizeof(RawHeaderEdit) == ste::kEditBytes);

// The parts of the format, see ste::Format.
[[nodiscard]] bool look_up(uint16_t lookup, const Packet& packet, ste::Tag& tag); // tags.cpp
[[nodiscard]] bool read_edit(ste::RawEdit raw, std::vector<HeaderStep>& steps); // header_edits.cpp

} // namespace softhca::core::mlx5_rings::v0
