// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/rings/mlx5/ste/format.hpp"

#include "app/softhca/core/rings/mlx5/ste/layout.hpp"

#include <bit>
#include <cstring>

namespace softhca::core::mlx5_rings {
namespace {

using ste::Change;
using ste::Entry;
using ste::Next;
using ste::Tag;

/// The number of entries is the lowest bit that is set; the address is a multiple of the table.
Next next_of(const Ste& ste) {
    const uint64_t word =
        uint64_t{ste.next_table_39_32} << 32 | (ste.next_table_31_5 & ~kNextFlags);
    const uint64_t index = word / (kNextFlags + 1);
    const uint64_t entries = index & (~index + 1);
    return {.address = (index & ~entries) * (kNextFlags + 1),
            .entries = static_cast<uint32_t>(entries),
            .lookup = ste.next_lookup,
            .hashed = ste.byte_mask};
}

bool read_tunnel(const Ste& ste, Entry& entry) {
    switch (static_cast<TunnelAction>(ste.tunnel >> 4 & 7)) {
    case TunnelAction::none:
    case TunnelAction::enable: return true;
    case TunnelAction::decap: entry.change = Change::decap; return true;
    case TunnelAction::decap_l3:
        entry.change = Change::decap_l3;
        entry.vlan_l2 = (ste.tunnel & kDecapWithVlan) != 0;
        return true;
    case TunnelAction::pop_vlan: entry.change = Change::pop_vlan; return true;
    }
    return false;
}

bool read_send(const Ste& ste, Entry& entry) {
    const uint32_t argument = ste.argument;
    switch (static_cast<SendAction>(ste.kind_data >> 7 & 7)) {
    case SendAction::none: return true;
    case SendAction::push_vlan:
        entry.change = Change::push_vlan;
        entry.vlan = {static_cast<uint16_t>(argument >> 16), static_cast<uint16_t>(argument)};
        return true;
    case SendAction::encap:
    case SendAction::encap_l3:
        entry.change = Change::reformat;
        entry.reformat = argument;
        return true;
    }
    return false;
}

/// What is different in the kinds of entries.
bool read_kind(const Ste& ste, Entry& entry) {
    switch (static_cast<SteType>(ste.type >> 4)) {
    case SteType::receive:
        if (ste.argument & kFlowTagValid) entry.flow_tag = ste.argument & ~kFlowTagValid;
        return read_tunnel(ste, entry);
    case SteType::modify_packet:
        entry.edits = ste.kind_data;
        entry.edits_from = uint64_t{ste.argument} * kEditListUnit;
        return read_tunnel(ste, entry);
    case SteType::transmit: return read_send(ste, entry);
    }
    return false;
}

/// CRC-32 by the reflected polynomial of Ethernet, without inversions, its bytes turned round.
uint32_t crc_of(const Tag& tag) {
    constexpr uint32_t kPolynomial = 0xedb88320;
    static constexpr auto kTable = [] {
        std::array<uint32_t, 256> table{};
        for (uint32_t byte = 0; byte < table.size(); byte++) {
            table[byte] = byte;
            for (int bit = 0; bit < 8; bit++)
                table[byte] = table[byte] >> 1 ^ (table[byte] & 1 ? kPolynomial : 0);
        }
        return table;
    }();
    uint32_t crc = 0;
    for (const std::byte byte : tag)
        crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
    return __builtin_bswap32(crc);
}

class SteFormat final : public ste::Format {
  public:
    [[nodiscard]] bool read(ste::RawEntry raw, Entry& entry) const override {
        Ste ste;
        std::memcpy(&ste, raw.data(), sizeof ste);
        entry = {};
        entry.lookup = ste.lookup;
        entry.tag = ste.tag;
        entry.mask = ste.mask;
        entry.miss = uint64_t{ste.miss_39_32} << 32 | (ste.miss_31_6 & ~kMissFlags);
        entry.hit = next_of(ste);
        entry.counter = uint32_t{ste.counter_23_16} << 16 | ste.counter_15_0;
        return read_kind(ste, entry);
    }
    [[nodiscard]] bool look_up(uint16_t lookup, const Packet& packet, Tag& tag) const override {
        return mlx5_rings::look_up(lookup, packet, tag);
    }
    [[nodiscard]] uint32_t hash(const Tag& tag) const override { return crc_of(tag); }
    void read_edit(ste::RawEdit raw, std::vector<HeaderEdit>& edits) const override {
        mlx5_rings::read_edit(raw, edits);
    }
};

} // namespace

const ste::Format& ste_format() {
    static const SteFormat kFormat;
    return kFormat;
}

} // namespace softhca::core::mlx5_rings
