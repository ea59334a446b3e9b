// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/ste/format.hpp"

#include "app/softhca/core/rings/mlx5/ste/v1/layout.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::core::mlx5_rings {
namespace v1 {
namespace {

using ste::Entry;
using ste::Tag;

bool is_match(uint16_t lookup) { return lookup >> 8 == static_cast<unsigned>(SteType::match); }

template <class T> T as(ste::RawEntry raw) {
    T ste;
    std::memcpy(&ste, raw.data(), sizeof ste);
    return ste;
}

bool read_mask_ste(const MaskSte& ste, SteType type, Entry& entry) {
    read_ways(ste.head, entry);
    entry.lookup = lookup_of(type, ste.head.definer);
    entry.tag = entry.mask = {};
    entry.tag_bytes = kShortTagBytes;
    std::ranges::copy(ste.tag, entry.tag.begin());
    std::ranges::copy(ste.mask, entry.mask.begin());
    const auto next = ste.next_format & kNextMasksWords ? SteType::mask_words : SteType::mask_bytes;
    entry.hit.lookup = lookup_of(next, ste.head.next_definer);
    entry.hit.hashed = ste.byte_mask;
    return read_actions(ste.actions, entry);
}

/// The mask is in its definer, as for the entries that follow.
bool read_match_ste(const MatchSte& ste, Entry& entry) {
    read_ways(ste.head, entry);
    entry.lookup = lookup_of(SteType::match, ste.head.definer);
    entry.tag = ste.tag;
    entry.tag_bytes = kMatchTagBytes;
    entry.mask.fill(std::byte{0xff});
    entry.hit.lookup = lookup_of(SteType::match, ste.head.next_definer);
    return read_actions(ste.actions, entry);
}

class SteFormat final : public ste::Format {
  public:
    [[nodiscard]] bool read(ste::RawEntry raw, Entry& entry) const override {
        entry.begin();
        switch (const auto type = static_cast<SteType>(raw.front())) {
        case SteType::mask_bytes:
        case SteType::mask_words: return read_mask_ste(as<MaskSte>(raw), type, entry);
        case SteType::match: return read_match_ste(as<MatchSte>(raw), entry);
        }
        return false;
    }
    [[nodiscard]] bool look_up(uint16_t lookup, const ste::Definers& definers, const Packet& packet,
                               Tag& tag) const override {
        if (!is_match(lookup)) return v1::look_up(lookup, packet, tag);
        const auto number = static_cast<uint8_t>(lookup);
        if (number == kDontCare) {
            tag = {};
            return true;
        }
        const ste::Definer* const definer = definers.find(number);
        return definer && v1::look_up(*definer, packet, tag);
    }
    [[nodiscard]] uint32_t hash(const ste::Next& next, const Tag& tag) const override {
        return is_match(next.lookup) ? crc_of(tag) : crc_of_bytes(tag, next.hashed);
    }
    [[nodiscard]] bool read_edit(ste::RawEdit raw, std::vector<HeaderStep>& steps) const override {
        return v1::read_edit(raw, steps);
    }
    [[nodiscard]] std::optional<Tag> layout_fields(uint16_t layout) const override {
        return v1::layout_fields(layout);
    }
};

} // namespace
} // namespace v1

const ste::Format& ste_format_1() {
    static const v1::SteFormat kFormat;
    return kFormat;
}

} // namespace softhca::core::mlx5_rings
