// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/mlx5_words.hpp"

#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/flow_tag.hpp"

#include <algorithm>
#include <tuple>

namespace rawqp {
namespace {

uint16_t place_of(const Field& field, uint8_t depth) {
    return depth == 0 ? field.mlx5.outer : field.mlx5.inner;
}

/// Rules of later groups match a mark in a register; a flag is not a mark.
Rewrite note_of(uint32_t tag) {
    Rewrite note{Protocol::mark, 0, 32, false, {}};
    if (tag != kFlowTagFlag) set_bits(note.value, 0, 32, kMarked | mark_of_tag(tag));
    return note;
}

/// Whether there are later rules.
bool notes_mark(const SteeringRequest& request) { return request.tag != 0 && request.next(); }

constexpr ReformatName kReformatNames[] = {
    {Reformat::strip_tunnel, MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TUNNEL_TO_L2, 0},
    {Reformat::wrap, MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L2_TUNNEL, prm::kL2ToL2Tunnel},
    {Reformat::strip_tunnel_to_l3, MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L3_TUNNEL_TO_L2,
     prm::kL3TunnelToL2},
    {Reformat::wrap_l3, MLX5DV_FLOW_ACTION_PACKET_REFORMAT_TYPE_L2_TO_L3_TUNNEL,
     prm::kL2ToL3Tunnel},
};

} // namespace

bool MatchMaker::has_mask_of(const Pattern& pattern) const {
    return known_ && std::ranges::equal(known_->layers(), pattern.layers(), same_headers);
}

void MatchMaker::learn(const Pattern& pattern) {
    known_ = pattern;
    places_.clear();
    mask_ = {};
    for (uint8_t number = 0; const Layer& layer : pattern.layers()) {
        for (const Field& field : fields_of(layer.protocol)) {
            const uint16_t place = place_of(field, layer.depth);
            if (place == Field::kNone || !layer.masks(field.bit, field.bits)) continue;
            places_.push_back({number, field.bit, field.bits, place});
            or_bits(layer.mask, field.bit, field.bits, mask_.mask, place);
            mask_.criteria |= static_cast<uint8_t>(1 << place / (8 * Mlx5Match::kBlockBytes));
        }
        ++number;
    }
}

Mlx5Match MatchMaker::of(const Pattern& pattern) {
    if (!has_mask_of(pattern)) learn(pattern);
    Mlx5Match match = mask_;
    for (const auto& [layer, bit, bits, place] : places_)
        or_bits(pattern.layers()[layer].value, bit, bits, match.value, place);
    return match;
}

Mlx5Match mlx5_match(const Pattern& pattern) { return MatchMaker().of(pattern); }

bool sorted_as_multicast(const Mlx5Match& match) {
    constexpr size_t kMac = 0x40 / 8, kIpv4 = 0x1e0 / 8;
    const auto both = [&](size_t at, uint8_t bits, uint8_t wanted) {
        return (match.value[at] & bits) == wanted && (match.mask[at] & bits) == wanted;
    };
    return both(kMac, 0x01, 0x01) || both(kIpv4, 0xf0, 0xe0);
}

std::optional<Lack> lack_of_match(const SteeringRequest& request) {
    if (request.group == 0 && request.strict_level &&
        sorted_as_multicast(mlx5_match(request.pattern)))
        return Lack{&request.pattern.eth(), "matches multicast, which the kernel's driver tries "
                                            "after all other mlx5dv flows"};
    static const CarriedBits kCarried(
        [](const Field& field, uint8_t depth) { return place_of(field, depth) != Field::kNone; });
    return first_lack(request.pattern, "the device's match parameters have", kCarried);
}

bool operator<(const EditKey& a, const EditKey& b) {
    const auto order = [](const EditKey& key) {
        return std::tie(key.egress, key.rewrites, key.noted_tag);
    };
    if (order(a) != order(b)) return order(a) < order(b);
    if (a.edits == b.edits) return false;
    if (!a.edits || !b.edits) return !a.edits;
    return a.rewrites ? a.edits->rewrites < b.edits->rewrites
                      : std::tie(a.edits->reformat, a.edits->header) <
                            std::tie(b.edits->reformat, b.edits->header);
}

std::vector<uint8_t> EditKey::bytes() const {
    if (!rewrites) return edits->header;
    std::vector<Rewrite> all;
    if (edits) all = edits->rewrites;
    if (noted_tag != 0) all.push_back(note_of(noted_tag));
    const std::vector<uint64_t> commands = rewrite_commands(all);
    const auto* const first = reinterpret_cast<const uint8_t*>(commands.data());
    return {first, first + commands.size() * sizeof(uint64_t)};
}

bool rewrites(const SteeringRequest& request) {
    return notes_mark(request) || (request.edits && !request.edits->rewrites.empty());
}
EditKey rewriting_of(const SteeringRequest& request) {
    return {request.egress, true, notes_mark(request) ? request.tag : 0, request.edits};
}
bool reformats(const SteeringRequest& request) {
    return request.edits && request.edits->reformat != Reformat::none;
}
EditKey reformatting_of(const SteeringRequest& request) {
    return {request.egress, false, 0, request.edits};
}

const ReformatName& name_of(Reformat reformat) {
    return *std::ranges::find(kReformatNames, reformat, &ReformatName::reformat);
}

} // namespace rawqp
