// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/ste/format.hpp"
#include "app/softhca/core/rings/mlx5/ste/v0/layout.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::core::mlx5_rings {
namespace v0 {
namespace {

using ste::Action;
using ste::Entry;
using ste::Tag;

bool add_step(Entry& entry, const HeaderStep& step) { return entry.add(step_of(step)); }

/// Replaces a tunnel's headers by an empty L2 header, to be edited.
bool decap_l3(Entry& entry, bool with_vlan) {
    constexpr size_t kTypeAt = 12;
    HeaderStep l2{.kind = HeaderStep::Kind::insert, .bytes = net::kEthernetBytes};
    if (with_vlan) {
        l2.bytes += net::kVlanBytes;
        net::store_be(l2.data.data() + kTypeAt, net::kEtherVlan);
    }
    return add_step(entry, {.kind = HeaderStep::Kind::remove_to, .to = Anchor::inner_l3}) &&
           add_step(entry, l2);
}

bool read_tunnel(const Ste& ste, Entry& entry) {
    switch (static_cast<TunnelAction>(ste.tunnel >> 4 & 7)) {
    case TunnelAction::none:
    case TunnelAction::enable: return true;
    case TunnelAction::decap:
        return add_step(entry, {.kind = HeaderStep::Kind::remove_to, .to = Anchor::inner_l2});
    case TunnelAction::decap_l3: return decap_l3(entry, (ste.tunnel & kDecapWithVlan) != 0);
    case TunnelAction::pop_vlan:
        return add_step(entry, {.kind = HeaderStep::Kind::remove,
                                .from = Anchor::first_vlan,
                                .bytes = net::kVlanBytes});
    }
    return false;
}

bool push_vlan(Entry& entry, uint32_t tag) {
    constexpr uint16_t kMacs = 12;
    HeaderStep push{.kind = HeaderStep::Kind::insert, .offset = kMacs, .bytes = net::kVlanBytes};
    net::store_be(push.data.data(), tag);
    return add_step(entry, push);
}

bool read_send(const Ste& ste, Entry& entry) {
    const Action encap{.kind = Action::Kind::encap,
                       .step = {.kind = HeaderStep::Kind::encap},
                       .number = ste.argument};
    switch (static_cast<SendAction>(ste.kind_data >> 7 & 7)) {
    case SendAction::none: return true;
    case SendAction::push_vlan: return push_vlan(entry, ste.argument);
    case SendAction::encap: return entry.add(encap);
    case SendAction::encap_l3:
        return add_step(entry, {.kind = HeaderStep::Kind::remove_to, .to = Anchor::l3}) &&
               entry.add(encap);
    }
    return false;
}

bool read_edits(const Ste& ste, Entry& entry) {
    if (ste.kind_data == 0) return true;
    return entry.add({.kind = Action::Kind::edits,
                      .count = ste.kind_data,
                      .edits_from = uint64_t{ste.argument} * kEditListUnit});
}

/// The parts in which the kinds of entries differ.
bool read_kind(const Ste& ste, Entry& entry) {
    switch (static_cast<SteType>(ste.type >> 4)) {
    case SteType::receive:
        if (ste.argument & kFlowTagValid) entry.flow_tag = ste.argument & ~kFlowTagValid;
        return read_tunnel(ste, entry);
    // Edits come after changes of tags and tunnels, as always.
    case SteType::modify_packet: return read_tunnel(ste, entry) && read_edits(ste, entry);
    case SteType::transmit: return read_send(ste, entry);
    }
    return false;
}

class SteFormat final : public ste::Format {
  public:
    [[nodiscard]] bool read(ste::RawEntry raw, Entry& entry) const override {
        Ste ste;
        std::memcpy(&ste, raw.data(), sizeof ste);
        entry.begin();
        entry.lookup = ste.lookup;
        entry.tag_bytes = kShortTagBytes;
        std::ranges::copy(ste.tag, entry.tag.begin());
        std::ranges::copy(ste.mask, entry.mask.begin());
        read_ways(ste, entry);
        entry.hit.lookup = ste.next_lookup;
        entry.hit.hashed = ste.byte_mask;
        return read_kind(ste, entry);
    }
    [[nodiscard]] bool look_up(uint16_t lookup, const ste::Definers&, const Packet& packet,
                               Tag& tag) const override {
        return v0::look_up(lookup, packet, tag);
    }
    [[nodiscard]] uint32_t hash(const ste::Next& next, const Tag& tag) const override {
        return crc_of_bytes(tag, next.hashed);
    }
    [[nodiscard]] bool read_edit(ste::RawEdit raw, std::vector<HeaderStep>& steps) const override {
        return v0::read_edit(raw, steps);
    }
    [[nodiscard]] std::optional<Tag> layout_fields(uint16_t) const override { return {}; }
};

} // namespace
} // namespace v0

const ste::Format& ste_format_0() {
    static const v0::SteFormat kFormat;
    return kFormat;
}

} // namespace softhca::core::mlx5_rings
