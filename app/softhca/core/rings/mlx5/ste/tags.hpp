// SPDX-License-Identifier: BSD-3-Clause
// Lookup types: the positions of a packet's fields in a tag. Common parts of the formats.
#pragma once

#include "app/softhca/core/rings/mlx5/ste/common.hpp"
#include "common/net/l4.hpp"

namespace softhca::core::mlx5_rings {

/// A field of a tag, given by its highest bit, counted from the start of the tag. No field crosses
/// a 32-bit word.
struct Bits {
    uint8_t at, width;
};

/// In its word.
[[nodiscard]] constexpr unsigned shift_of(Bits bits) { return 32u - bits.at % 32u - bits.width; }
[[nodiscard]] constexpr uint32_t ones(Bits bits) {
    return ~0u >> (32u - bits.width) << shift_of(bits);
}

class TagWriter {
  public:
    void put(Bits bits, uint32_t value) { words_[bits.at / 32] |= value << shift_of(bits); }
    void put_bytes(uint8_t word, const uint8_t* bytes, size_t count) {
        for (size_t i = 0; i < count; i += sizeof(uint32_t))
            words_[word + i / sizeof(uint32_t)] = net::load_be<uint32_t>(bytes + i);
    }
    [[nodiscard]] ste::Tag tag() const {
        ste::Tag tag{};
        for (size_t i = 0; i < words_.size(); i++)
            net::store_be(tag.data() + i * sizeof(uint32_t), words_[i]);
        return tag;
    }

  private:
    std::array<uint32_t, ste::kTagBytes / sizeof(uint32_t)> words_{};
};

/// The packet, and which of its layers the lookup refers to.
struct Seen {
    const Packet& packet;
    const LayerKey& layer;
    bool inner;
    [[nodiscard]] const TunnelKey& tunnel() const { return packet.key().tunnel; }
    [[nodiscard]] const MetaKey& meta() const { return packet.key().meta; }
};

using WriteTag = void (*)(const Seen&, TagWriter&);
/// The entry for a number in a table of lookups.
struct KnownLookup {
    WriteTag write = nullptr; ///< null: nothing does
    bool inner = false;
};
/// False: there is no such lookup.
[[nodiscard]] bool write_tag(const KnownLookup& lookup, const Packet& packet, ste::Tag& tag);

[[nodiscard]] inline uint32_t mac_47_16(const std::array<uint8_t, 6>& mac) {
    return net::load_be<uint32_t>(mac.data());
}
[[nodiscard]] inline uint32_t mac_15_0(const std::array<uint8_t, 6>& mac) {
    return net::load_be<uint16_t>(mac.data() + 4);
}

[[nodiscard]] inline uint32_t qualifier(uint8_t svlan, uint8_t cvlan) {
    constexpr uint32_t kService = 1, kCustomer = 2;
    return svlan ? kService : cvlan ? kCustomer : 0;
}
[[nodiscard]] inline uint32_t l3_type(const LayerKey& layer) {
    return layer.ip_version == 4 ? 1 : layer.ip_version == 6 ? 2 : 0;
}

[[nodiscard]] inline uint32_t l4_type(const LayerKey& layer) {
    return layer.l4 == net::kProtoTcp ? 1 : layer.l4 == net::kProtoUdp ? 2 : 0;
}
/// 0: not IPv4.
[[nodiscard]] inline uint32_t ipv4(const LayerKey& layer, const std::array<uint8_t, 16>& address) {
    return layer.ip_version == 4 ? net::load_be<uint32_t>(address.data() + 12) : 0;
}

/// Priority and CFI, the qualifier and the id of a tag, at three positions.
struct VlanBits {
    Bits priority_cfi, kind, id;
};
template <class To> void put_vlan(To& to, const VlanBits& bits, uint16_t tci, uint32_t kind) {
    to.put(bits.priority_cfi, tci >> 12);
    to.put(bits.kind, kind);
    to.put(bits.id, tci & 0xfff);
}
template <class To> void put_first_vlan(To& to, const VlanBits& bits, const LayerKey& layer) {
    put_vlan(to, bits, layer.vlan_tci, qualifier(layer.svlan, layer.cvlan));
}
template <class To> void put_second_vlan(To& to, const VlanBits& bits, const LayerKey& layer) {
    put_vlan(to, bits, layer.second_tci, qualifier(layer.second_svlan, layer.second_cvlan));
}

/// The unmodified beginning of a tunnel's header, for any tunnel that rules look into. Zeros where
/// the header is shorter.
using TunnelWords = std::array<uint32_t, 4>;
[[nodiscard]] TunnelWords tunnel_words(const Packet& packet);

// Lookups that are the same in all formats, by the names of mlx5_ifc.h.
void destination_ip(const Seen& seen, TagWriter& to);    ///< ste_eth_l3_ipv6_dst: of IPv4, …
void source_ip(const Seen& seen, TagWriter& to);         ///< … and ste_eth_l3_ipv6_src: last word
void gre(const Seen& seen, TagWriter& to);               ///< ste_gre
void tunnel_header(const Seen& seen, TagWriter& to);     ///< ste_flex_parser_tnl_*
void raw_tunnel_header(const Seen& seen, TagWriter& to); ///< ste_tunnel_header
void flex_parsers_0(const Seen& seen, TagWriter& to);    ///< ste_flex_parser_0 …
void flex_parsers_1(const Seen& seen, TagWriter& to);    ///< … and _1
void general_purpose(const Seen& seen, TagWriter& to);   ///< ste_general_purpose
void registers_0(const Seen& seen, TagWriter& to);       ///< ste_register_0 …
void registers_1(const Seen& seen, TagWriter& to);       ///< … and _1
void source_queue(const Seen& seen, TagWriter& to);      ///< ste_src_gvmi_qp

} // namespace softhca::core::mlx5_rings
