// SPDX-License-Identifier: BSD-3-Clause
// Steering entries (STEs) that programs write into ICM, whatever their format, and where they lead.
#pragma once

#include "app/softhca/core/types.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace softhca::core::ste {

inline constexpr size_t kEntryBytes = 64, kTagBytes = 16, kEditBytes = 8;
/// What a lookup sees of a packet, and what an entry wants to see.
using Tag = std::array<std::byte, kTagBytes>;
using RawEntry = std::span<const std::byte, kEntryBytes>;
using RawEdit = std::span<const std::byte, kEditBytes>;

/// Where a packet goes on: in a hash table, or to a single entry or address.
struct Next {
    uint64_t address = 0;
    uint32_t entries = 1; ///< a power of two
    uint16_t lookup = 0;  ///< what is hashed, in the format's numbers …
    uint16_t hashed = 0;  ///< … and of that, these bytes: the first one is the highest bit
};

/// What becomes of a packet besides edits of its headers.
enum class Change : uint8_t {
    none,
    decap,    ///< the frame inside an L2 tunnel comes out
    decap_l3, ///< what an L3 tunnel carries gets an empty L2 header, to be edited
    pop_vlan,
    push_vlan,
    reformat
};

struct Entry {
    uint16_t lookup = 0; ///< what the tag is made of
    Tag tag{}, mask{};   ///< matches if the packet's tag under the mask is this one
    uint64_t miss = 0;   ///< where others go
    Next hit;
    Number counter = 0; ///< 0: none
    std::optional<uint32_t> flow_tag;
    Change change = Change::none;
    bool vlan_l2 = false;    ///< of decap_l3: the header has room for a tag
    VlanTag vlan;            ///< of push_vlan
    Number reformat = 0;     ///< of reformat
    uint32_t edits = 0;      ///< so many …
    uint64_t edits_from = 0; ///< … from this offset in their ICM on
};

// ---------------------------------------------------------------- addresses

/// What stands at addresses that are no memory.
enum class Place : uint8_t { nothing, drop, send, tir, flow_table };
struct Destination {
    Place place = Place::nothing;
    Number number = 0; ///< of the TIR or flow table
};

inline constexpr uint64_t kTirs = uint64_t{1} << 38, kFlowTables = kTirs + (uint64_t{1} << 37),
                          kDrop = uint64_t{1} << 39, kSend = kDrop + kEntryBytes;
inline constexpr uint64_t kNumbers = 1 << 24; ///< of an object

[[nodiscard]] constexpr uint64_t address_of(Place place, Number number = 0) {
    switch (place) {
    case Place::nothing: break;
    case Place::drop: return kDrop;
    case Place::send: return kSend;
    case Place::tir: return kTirs + number * kEntryBytes;
    case Place::flow_table: return kFlowTables + number * kEntryBytes;
    }
    return 0;
}

[[nodiscard]] constexpr Destination destination_of(uint64_t address) {
    const auto number_after = [&](uint64_t first) { return (address - first) / kEntryBytes; };
    if (address == kDrop) return {Place::drop};
    if (address == kSend) return {Place::send};
    if (number_after(kTirs) < kNumbers)
        return {Place::tir, static_cast<Number>(number_after(kTirs))};
    if (number_after(kFlowTables) < kNumbers)
        return {Place::flow_table, static_cast<Number>(number_after(kFlowTables))};
    return {};
}

} // namespace softhca::core::ste
