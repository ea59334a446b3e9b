// SPDX-License-Identifier: BSD-3-Clause
// Bytes of steering entries and actions in ICM, of format 1. Source: rdma-core,
// providers/mlx5/mlx5_ifc.h: ste_match_bwc_v1, ste_mask_and_match_v1, ste_single_action_*_v1,
// ste_double_action_*_v1; dr_ste_v1.h for the numbers.
#pragma once

#include "app/softhca/core/rings/mlx5/ste/common.hpp"
#include "common/net/endian.hpp"

#include <array>
#include <cstddef>
#include <optional>

namespace softhca::core::mlx5_rings::v1 {

/// In Ste::format. Entries of the first two kinds have a mask and room for one double action. Those
/// of kind match have a tag of twice the size, their definer's mask, and room for three single
/// actions.
enum class SteType : uint8_t { mask_bytes = 0, mask_words = 1, match = 4 };

/// The first 20 bytes, common to all kinds of entries.
struct SteHead {
    uint8_t format; ///< SteType
    uint8_t counter_23_16;
    net::be16 counter_15_0;
    net::be16 miss_63_48;
    uint8_t definer; ///< with the type, the lookup
    uint8_t miss_39_32;
    net::be32 miss_31_6; ///< and flags in the bits below
    net::be16 next_table_63_48;
    uint8_t next_definer;
    uint8_t next_table_39_32;
    net::be32 next_table_31_5; ///< the address, with the number of entries in the bits below it
};

inline constexpr size_t kMatchTagBytes = 32;
static_assert(kMatchTagBytes == ste::kTagBytes);

struct MaskSte {
    SteHead head;
    net::be16 byte_mask; ///< of the hash of the next table
    net::be16 next_format;
    std::array<std::byte, 8> actions;
    std::array<std::byte, kShortTagBytes> mask, tag;
};
struct MatchSte {
    SteHead head;
    std::array<std::byte, 12> actions;
    std::array<std::byte, kMatchTagBytes> tag;
};
static_assert(sizeof(SteHead) == 20 && offsetof(SteHead, definer) == 6 &&
              offsetof(SteHead, next_definer) == 14 && offsetof(SteHead, next_table_31_5) == 16);
static_assert(sizeof(MaskSte) == ste::kEntryBytes && offsetof(MaskSte, actions) == 24 &&
              offsetof(MaskSte, mask) == 32 && offsetof(MaskSte, tag) == 48);
static_assert(sizeof(MatchSte) == ste::kEntryBytes && offsetof(MatchSte, actions) == 20 &&
              offsetof(MatchSte, tag) == 32);

inline constexpr uint16_t kNextMasksWords = 1u << 15; ///< in MaskSte::next_format

/// A lookup: the type of entry, and a definer.
[[nodiscard]] constexpr uint16_t lookup_of(SteType type, uint8_t definer) {
    return static_cast<uint16_t>(static_cast<unsigned>(type) << 8 | definer);
}
/// The definer of entries that match nothing. For entries with a mask of their own, it is that of
/// another lookup.
inline constexpr uint8_t kDontCare = 0x0f;

// ---------------------------------------------------------------- actions

enum class ActionId : uint8_t {
    none = 0x00,
    copy = 0x05,
    set = 0x06,
    add = 0x07,
    remove_by_size = 0x08,
    remove_to_header = 0x09,
    insert_inline = 0x0a,
    insert_pointer = 0x0b,
    flow_tag = 0x0c,
    accelerated_list = 0x0e,
    modify_list = 0x0f,
    aso = 0x12
};

inline constexpr size_t kSingleBytes = 4, kDoubleBytes = 8;

/// Where a header begins.
enum class HeaderAnchor : uint8_t {
    start = 0x00,
    first_vlan = 0x02,
    l3 = 0x07,
    inner_l2 = 0x13,
    inner_l3 = 0x19
};
inline constexpr uint8_t kAnchorMask = 0x3f;

/// Actions have their id in the first byte. Offsets and sizes of headers are in words of two bytes.
inline constexpr uint32_t kHeaderWord = 2;

struct FlowTagAction {
    uint8_t id;
    std::array<uint8_t, 3> tag;
};
struct ModifyListAction {
    uint8_t id;
    uint8_t count;
    net::be16 list; ///< in units of kEditListUnit
};
/// A pattern of edits, and the first of the arguments with the values that they set, add and
/// insert.
struct AcceleratedListAction {
    uint8_t id;
    std::array<uint8_t, 3> pattern; ///< in units of kEditListUnit
    uint8_t count;
    std::array<uint8_t, 3> argument;
};
struct RemoveToHeaderAction {
    uint8_t id;
    uint8_t start_anchor, end_anchor;
    uint8_t flags; ///< decap, VNI to the CQE: which this device does always and never, respectively
};
struct RemoveBySizeAction {
    uint8_t id;
    uint8_t start_anchor;
    net::be16 offset_size; ///< the offset in bits 13 to 7, the size in bits 5 to 0
};
static_assert(sizeof(FlowTagAction) == kSingleBytes && sizeof(ModifyListAction) == kSingleBytes &&
              sizeof(RemoveToHeaderAction) == kSingleBytes &&
              sizeof(RemoveBySizeAction) == kSingleBytes);

/// Set, add and copy.
struct ModifyAction {
    uint8_t id;
    uint8_t field;  ///< the field to change
    uint8_t shift;  ///< lowest bit of it, plus kFieldShift
    uint8_t length; ///< bits
    net::be32 data; ///< the value; copy: field and shift in bytes 1 and 2
};
inline constexpr uint8_t kFieldShift = 0x20; ///< MLX5_MODIFY_HEADER_V1_QW_OFFSET
inline constexpr uint8_t kShiftMask = 0x3f;

struct InsertAction {
    uint8_t id;
    uint8_t start_anchor;
    net::be16 offset_size; ///< the offset in bits 15 to 9; pointer: the size in bits 8 to 3
    net::be32 data;        ///< inline: bytes; pointer: number of the reformat
};

struct AsoAction {
    uint8_t id;
    std::array<uint8_t, 3> object;
    uint8_t reg_type; ///< the pair of registers in bits 7 and 6, the type of object in bits 3 to 0
    uint8_t reserved;
    net::be16 meter; ///< the color before in bits 2 and 1, which meter of the pair in bit 0
};
inline constexpr uint8_t kAsoMeters = 2; ///< a type
static_assert(sizeof(ModifyAction) == kDoubleBytes && sizeof(InsertAction) == kDoubleBytes &&
              sizeof(AsoAction) == kDoubleBytes && offsetof(AsoAction, reg_type) == 4 &&
              sizeof(AcceleratedListAction) == kDoubleBytes);
static_assert(sizeof(ModifyAction) == ste::kEditBytes); // the elements of lists

// ---------------------------------------------------------------- the parts of the format

// See ste::Format.
[[nodiscard]] bool look_up(uint16_t lookup, const Packet& packet, ste::Tag& tag); // tags.cpp
[[nodiscard]] bool look_up(const ste::Definer& definer, const Packet& packet,
                           ste::Tag& tag); // definers.cpp
[[nodiscard]] std::optional<ste::Tag> layout_fields(uint16_t layout);
[[nodiscard]] bool read_actions(std::span<const std::byte> bytes, ste::Entry& entry); // actions.cpp
[[nodiscard]] bool read_edit(ste::RawEdit raw, std::vector<HeaderStep>& steps);

} // namespace softhca::core::mlx5_rings::v1
