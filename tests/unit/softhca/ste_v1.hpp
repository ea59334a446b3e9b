// SPDX-License-Identifier: BSD-3-Clause
// Entries of format 1 for tests.
#pragma once

#include "app/softhca/core/rings/mlx5/ste/v1/layout.hpp"
#include "app/softhca/core/ste/entry.hpp"
#include "tests/unit/softhca/ste.hpp"

#include <algorithm>

namespace testbed {

namespace v1 = mlx5_rings::v1;
using v1::ActionId;
using v1::HeaderAnchor;
using v1::MaskSte;
using v1::MatchSte;
using v1::SteType;

/// A sequence of actions, as bytes.
class Actions {
  public:
    Actions& word(uint32_t value) {
        for (int shift = 24; shift >= 0; shift -= 8)
            bytes.push_back(static_cast<uint8_t>(value >> shift));
        return *this;
    }
    Actions& id(ActionId id, uint32_t rest) { return word(static_cast<uint32_t>(id) << 24 | rest); }
    Actions& nothing() { return word(0); }
    Actions& flow_tag(uint32_t tag) { return id(ActionId::flow_tag, tag); }
    Actions& list(uint8_t count, uint16_t at) {
        return id(ActionId::modify_list, uint32_t{count} << 16 | at);
    }
    /// `count` edits of the pattern at `at`, with arguments from `argument` on.
    Actions& pattern(uint8_t count, uint32_t at, Number argument) {
        return id(ActionId::accelerated_list, at).word(uint32_t{count} << 24 | argument);
    }
    /// Sets `length` bits of a field, from bit `first` on.
    Actions& set(uint8_t field, uint8_t first, uint8_t length, uint32_t value) {
        return modify(ActionId::set, field, first, length).word(value);
    }
    Actions& add(uint8_t field, uint8_t first, uint8_t length, uint32_t value) {
        return modify(ActionId::add, field, first, length).word(value);
    }
    Actions& copy(uint8_t to, uint8_t first, uint8_t length, uint8_t from, uint8_t from_first) {
        return modify(ActionId::copy, to, first, length)
            .word(uint32_t{from} << 16 | (from_first + 32u) << 8);
    }
    Actions& remove_to(HeaderAnchor from, HeaderAnchor to) {
        return id(ActionId::remove_to_header,
                  static_cast<uint32_t>(from) << 16 | static_cast<uint32_t>(to) << 8);
    }
    /// Offset and size in words of two bytes.
    Actions& remove(HeaderAnchor from, uint32_t offset, uint32_t size) {
        return id(ActionId::remove_by_size, static_cast<uint32_t>(from) << 16 | offset << 7 | size);
    }
    Actions& insert(HeaderAnchor from, uint32_t offset, uint32_t data) {
        return id(ActionId::insert_inline, static_cast<uint32_t>(from) << 16 | offset << 9)
            .word(data);
    }
    Actions& encap(Number reformat) { return id(ActionId::insert_pointer, 1).word(reformat); }
    Actions& meter(Number object, uint8_t which, uint8_t reg_pair, Color before) {
        return id(ActionId::aso, object)
            .word(uint32_t{reg_pair} << 30 | uint32_t{v1::kAsoMeters} << 24 |
                  static_cast<uint32_t>(before) << 1 | which);
    }

    Bytes bytes;

  private:
    Actions& modify(ActionId what, uint8_t field, uint8_t first, uint8_t length) {
        return id(what, uint32_t{field} << 16 | (first + 32u) << 8 | length);
    }
};

/// Replaces a tunnel by an L2 header, with the same list as libmlx5: the header is inserted in
/// words, the last ones first, then two surplus bytes are removed.
inline Actions put_l2_for_tunnel(const Bytes& l2) {
    Bytes padded = {0, 0};
    padded.insert(padded.end(), l2.begin(), l2.end());
    Actions list;
    list.remove_to(HeaderAnchor::start, HeaderAnchor::inner_l3).nothing();
    for (size_t at = padded.size(); at != 0; at -= 4)
        list.insert(HeaderAnchor::start, 0, frames::get32(padded, at - 4));
    list.remove(HeaderAnchor::start, 0, 1).nothing();
    return list;
}

class SteV1Bed : public SteBed {
  protected:
    SteV1Bed() : SteBed(1) {}

    /// An entry that takes every packet; `hit` is an address, or a table of `entries`.
    static MaskSte mask_ste(uint64_t hit, const Actions& actions = {}, uint32_t entries = 1) {
        MaskSte made{};
        lead(made.head, hit, entries);
        made.head.definer = v1::kDontCare;
        miss(made.head, to_drop());
        fill(made.actions, actions);
        return made;
    }
    static MatchSte match_ste(uint64_t hit, const Actions& actions = {}) {
        MatchSte made{};
        made.head.format = static_cast<uint8_t>(SteType::match);
        lead(made.head, hit);
        made.head.definer = v1::kDontCare;
        miss(made.head, to_drop());
        fill(made.actions, actions);
        return made;
    }
    static void lead(v1::SteHead& head, uint64_t hit, uint32_t entries = 1) {
        const uint64_t word = hit | uint64_t{entries} << 5;
        head.next_table_39_32 = static_cast<uint8_t>(word >> 32);
        head.next_table_31_5 = static_cast<uint32_t>(word);
    }
    static void miss(v1::SteHead& head, uint64_t address) {
        head.miss_39_32 = static_cast<uint8_t>(address >> 32);
        head.miss_31_6 = static_cast<uint32_t>(address);
    }
    static void count(v1::SteHead& head, Number counter) {
        head.counter_23_16 = static_cast<uint8_t>(counter >> 16);
        head.counter_15_0 = static_cast<uint16_t>(counter);
    }
    /// Makes the entry require these bytes in the tag of a lookup.
    static void want(MaskSte& made, uint16_t lookup, size_t at, const Bytes& bytes) {
        made.head.format = static_cast<uint8_t>(lookup >> 8);
        made.head.definer = static_cast<uint8_t>(lookup);
        std::memcpy(made.tag.data() + at, bytes.data(), bytes.size());
        std::fill_n(made.mask.begin() + static_cast<ptrdiff_t>(at), bytes.size(), kAll);
    }
    void put_list(const Actions& actions) {
        write(edits + mlx5_rings::kEditListUnit, actions.bytes.data(), actions.bytes.size());
    }
    static constexpr uint16_t kListAt = 1; ///< in units of 64 bytes
    /// Receives a frame with this entry alone, and returns it as delivered.
    template <class Ste> Bytes passed_by(const Ste& entry, const Bytes& frame) {
        put_ste(0, entry);
        return passed(frame);
    }

  private:
    template <size_t kBytes>
    static void fill(std::array<std::byte, kBytes>& room, const Actions& actions) {
        ASSERT_LE(actions.bytes.size(), kBytes);
        std::ranges::copy(std::as_bytes(std::span(actions.bytes)), room.begin());
    }
};

} // namespace testbed
