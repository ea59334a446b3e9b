// SPDX-License-Identifier: BSD-3-Clause
// Steering entries (STEs) that programs write into ICM, independent of their format, and their
// destinations.
#pragma once

#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/rewrite.hpp"
#include "app/softhca/core/types.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace softhca::core::ste {

inline constexpr size_t kEntryBytes = 64, kEditBytes = 8;
/// What a lookup reads from a packet, and what an entry matches. Not all formats and lookups use
/// all of it; the rest is zero.
inline constexpr size_t kTagBytes = 32;
using Tag = std::array<std::byte, kTagBytes>;
[[nodiscard]] inline Tag masked(const Tag& tag, const Tag& mask) {
    Tag result;
    for (size_t i = 0; i < kTagBytes; i++)
        result[i] = tag[i] & mask[i];
    return result;
}
using RawEntry = std::span<const std::byte, kEntryBytes>;
using RawEdit = std::span<const std::byte, kEditBytes>;

/// Where a packet goes next: to a hash table, or to a single entry or address.
struct Next {
    uint64_t address = 0;
    uint32_t entries = 1; ///< a power of two
    uint16_t lookup = 0;  ///< what is hashed, in the format's numbers …
    uint16_t hashed = 0;  ///< … and of that, these bytes, as the format has it
};

/// What an entry does to a packet's headers: steps, in order.
struct Action {
    enum class Kind : uint8_t {
        step,
        encap,   ///< a step with the reformat of this number
        edit,    ///< steps from a list …
        edits,   ///< … those of a list in ICM …
        pattern, ///< … and those of a pattern there, with what is in arguments
        meter
    };
    Kind kind{};
    HeaderStep step{};
    std::array<std::byte, kEditBytes> edit{};
    Number number = 0;       ///< of the reformat, of the first argument, or of the meters
    uint32_t count = 0;      ///< number of edits …
    uint64_t edits_from = 0; ///< … from this offset in their ICM on
    uint8_t meter = 0;       ///< which one of the pair
    uint8_t reg_c = 0;       ///< that gets the color
    Color before = Color::undefined;
};

struct Entry {
    static constexpr size_t kMaxActions = 3;

    uint16_t lookup = 0;           ///< what makes up the tag
    Tag tag{}, mask{};             ///< matches if the packet's tag under the mask equals this
    uint8_t tag_bytes = kTagBytes; ///< of these; the rest is zero
    uint64_t miss = 0;             ///< where other packets go
    Next hit;
    Number counter = 0; ///< 0: none; counts the packet as it arrives
    std::optional<uint32_t> flow_tag;

    /// Clears everything of the previous entry.
    void begin() {
        counter = 0;
        flow_tag.reset();
        action_count_ = 0;
    }
    /// False: no room for it.
    [[nodiscard]] bool add(const Action& action) {
        if (action_count_ == actions_.size()) return false;
        actions_[action_count_++] = action;
        return true;
    }
    [[nodiscard]] std::span<const Action> actions() const {
        return std::span(actions_).first(action_count_);
    }

  private:
    std::array<Action, kMaxActions> actions_;
    size_t action_count_ = 0;
};

/// What a full-size matcher reads, as created by a program: a layout that the format knows by
/// number, and which bits of it.
struct Definer {
    uint16_t layout = 0;
    Tag mask{};
};

/// The definers of a device, by their number. Used with the device locked.
class Definers {
  public:
    static constexpr Number kFirst = 0x20, kEnd = 0x100; ///< entries have eight bits for a number

    [[nodiscard]] Outcome<Number> create(const Definer& definer) {
        for (Number number = kFirst; number < kEnd; number++)
            if (!definers_[number]) {
                definers_[number] = definer;
                return number;
            }
        return refuse(Status::limit);
    }
    [[nodiscard]] Outcome<void> destroy(Number number) {
        if (!find(number)) return refuse(Status::bad_resource);
        definers_[number].reset();
        return {};
    }
    /// Null if there is none.
    [[nodiscard]] const Definer* find(Number number) const {
        return number < kEnd && definers_[number] ? &*definers_[number] : nullptr;
    }
    void clear() { definers_.fill({}); }

  private:
    std::array<std::optional<Definer>, kEnd> definers_{};
};

// ---------------------------------------------------------------- addresses

/// The meaning of addresses that are not memory.
enum class Place : uint8_t { nothing, drop, send, tir, flow_table, sampler };
struct Destination {
    Place place = Place::nothing;
    Number number = 0; ///< of the TIR, flow table or sampler
};

inline constexpr uint64_t kTirs = uint64_t{1} << 38, kFlowTables = kTirs + (uint64_t{1} << 37),
                          kSamplers = kFlowTables + (uint64_t{1} << 36), kDrop = uint64_t{1} << 39,
                          kSend = kDrop + kEntryBytes;
inline constexpr uint64_t kNumbers = 1 << 24; ///< of an object

[[nodiscard]] constexpr uint64_t address_of(Place place, Number number = 0) {
    switch (place) {
    case Place::nothing: break;
    case Place::drop: return kDrop;
    case Place::send: return kSend;
    case Place::tir: return kTirs + number * kEntryBytes;
    case Place::flow_table: return kFlowTables + number * kEntryBytes;
    case Place::sampler: return kSamplers + number * kEntryBytes;
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
    if (number_after(kSamplers) < kNumbers)
        return {Place::sampler, static_cast<Number>(number_after(kSamplers))};
    return {};
}

} // namespace softhca::core::ste
