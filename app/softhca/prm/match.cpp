// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/match.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <netinet/in.h>

namespace softhca::prm {
namespace {

using core::FlowKey;
using core::LayerKey;
using core::TunnelKey;

constexpr uint8_t kNotAnnounced = MatchField::kNotAnnounced;

// struct mlx5_ifc_fte_match_param_bits: sections of 64 bytes each.
constexpr size_t kBytes = 512;
constexpr uint16_t kSection = 512;
constexpr uint16_t kOuter = 0, kMisc = kSection, kInner = 2 * kSection, kMisc2 = 3 * kSection,
                   kMisc3 = 4 * kSection;
constexpr uint8_t kInnerCapabilities = 32; ///< as far behind those of the outer fields

/// The last `width` bits of a member, or those `shift` bits before.
#define KEY(type, member, width, shift)                                                            \
    static_cast<uint16_t>(8 * (offsetof(type, member) + sizeof(type::member)) - (width) - (shift))
#define LAYER(bit, width, member, shift, ...)                                                      \
    { bit, KEY(LayerKey, member, width, shift), width, __VA_ARGS__ }

/// mlx5_ifc_fte_match_set_lyr_2_4_bits, from the start of a layer's section and key.
constexpr MatchField kLayer[] = {
    LAYER(0, 48, src_mac, 0, 1),
    LAYER(48, 16, ether_type, 0, 2),
    LAYER(64, 48, dst_mac, 0, 0),
    LAYER(112, 3, vlan_tci, 13, 4),
    LAYER(115, 1, vlan_tci, 12, 5),
    LAYER(116, 12, vlan_tci, 0, 6),
    LAYER(128, 8, ip_proto, 0, 15),
    LAYER(136, 6, tos, 2, 17),
    LAYER(142, 2, tos, 0, 16),
    LAYER(144, 1, cvlan, 0),
    LAYER(145, 1, svlan, 0),
    LAYER(146, 1, ip_fragment, 0, 14),
    LAYER(147, 4, ip_version, 0, 3),
    LAYER(151, 9, tcp_flags, 0, 22, IPPROTO_TCP),
    LAYER(160, 16, src_port, 0, 20, IPPROTO_TCP),
    LAYER(176, 16, dst_port, 0, 21, IPPROTO_TCP),
    LAYER(208, 4, ipv4_ihl, 0),
    LAYER(212, 4, integrity, 0), // l3_ok, l4_ok, ipv4_checksum_ok, l4_checksum_ok
    LAYER(224, 16, src_port, 0, 18, IPPROTO_UDP),
    LAYER(240, 16, dst_port, 0, 19, IPPROTO_UDP),
    LAYER(256, 128, src_ip, 0, 12),
    LAYER(384, 128, dst_ip, 0, 13),
};

#define FIELD(bit, width, member, shift, ...)                                                      \
    { bit, KEY(FlowKey, member, width, shift), width, __VA_ARGS__ }
#define MPLS(bit, member, capability)                                                              \
    FIELD(bit, 20, member, 12, capability + 3), FIELD(bit + 20, 3, member, 9, capability + 2),     \
        FIELD(bit + 23, 1, member, 8, capability + 1), FIELD(bit + 24, 8, member, 0, capability)

constexpr MatchField kOther[] = {
    FIELD(kOuter + 216, 8, outer.ttl, 0, 7),
    FIELD(kInner + 216, 8, inner.ttl, 0),
    // mlx5_ifc_fte_match_set_misc_bits
    FIELD(kMisc + 0, 1, tunnel.gre_checksum, 0),
    FIELD(kMisc + 2, 1, tunnel.gre_has_key, 0),
    FIELD(kMisc + 3, 1, tunnel.gre_sequence, 0),
    FIELD(kMisc + 8, 24, meta.source_sqn, 0),
    FIELD(kMisc + 64, 3, outer.second_tci, 13, 8),
    FIELD(kMisc + 67, 1, outer.second_tci, 12, 9),
    FIELD(kMisc + 68, 12, outer.second_tci, 0, 10),
    FIELD(kMisc + 80, 3, inner.second_tci, 13, 40),
    FIELD(kMisc + 83, 1, inner.second_tci, 12, 41),
    FIELD(kMisc + 84, 12, inner.second_tci, 0, 42),
    FIELD(kMisc + 96, 1, outer.second_cvlan, 0),
    FIELD(kMisc + 97, 1, inner.second_cvlan, 0),
    FIELD(kMisc + 98, 1, outer.second_svlan, 0),
    FIELD(kMisc + 99, 1, inner.second_svlan, 0),
    FIELD(kMisc + 112, 16, tunnel.gre_protocol, 0, 23),
    FIELD(kMisc + 128, 32, tunnel.gre_key, 0, 24),
    FIELD(kMisc + 160, 24, tunnel.vxlan_vni, 0, 25),
    FIELD(kMisc + 192, 24, tunnel.geneve_vni, 0, 26),
    FIELD(kMisc + 223, 1, tunnel.geneve_oam, 0, 27),
    FIELD(kMisc + 236, 20, outer.flow_label, 0),
    FIELD(kMisc + 268, 20, inner.flow_label, 0),
    FIELD(kMisc + 298, 6, tunnel.geneve_options, 0, 29),
    FIELD(kMisc + 304, 16, tunnel.geneve_protocol, 0, 28),
    FIELD(kMisc + 384, 32, tunnel.esp_spi, 0, 87),
    // mlx5_ifc_fte_match_set_misc2_bits
    MPLS(kMisc2 + 0, tunnel.mpls, 81),
    MPLS(kMisc2 + 32, tunnel.inner_mpls, 77),
    MPLS(kMisc2 + 64, tunnel.mpls_over_gre, 73),
    MPLS(kMisc2 + 96, tunnel.mpls_over_udp, 69),
    FIELD(kMisc2 + 128, 32, meta.reg_c[7], 0, 120),
    FIELD(kMisc2 + 160, 32, meta.reg_c[6], 0, 121),
    FIELD(kMisc2 + 192, 32, meta.reg_c[5], 0, 122),
    FIELD(kMisc2 + 224, 32, meta.reg_c[4], 0, 123),
    FIELD(kMisc2 + 256, 32, meta.reg_c[3], 0, 124),
    FIELD(kMisc2 + 288, 32, meta.reg_c[2], 0, 125),
    FIELD(kMisc2 + 320, 32, meta.reg_c[1], 0, 126),
    FIELD(kMisc2 + 352, 32, meta.reg_c[0], 0, 127),
    FIELD(kMisc2 + 384, 32, meta.reg_a, 0),
    // mlx5_ifc_fte_match_set_misc3_bits
    FIELD(kMisc3 + 0, 32, inner.tcp_sequence, 0, kNotAnnounced, IPPROTO_TCP),
    FIELD(kMisc3 + 32, 32, outer.tcp_sequence, 0, kNotAnnounced, IPPROTO_TCP),
    FIELD(kMisc3 + 64, 32, inner.tcp_ack, 0, kNotAnnounced, IPPROTO_TCP),
    FIELD(kMisc3 + 96, 32, outer.tcp_ack, 0, kNotAnnounced, IPPROTO_TCP),
    FIELD(kMisc3 + 136, 24, tunnel.gpe_vni, 0),
    FIELD(kMisc3 + 160, 8, tunnel.gpe_protocol, 0),
    FIELD(kMisc3 + 168, 8, tunnel.gpe_flags, 0),
    FIELD(kMisc3 + 192, 32, tunnel.icmp_data, 0),
    FIELD(kMisc3 + 224, 32, tunnel.icmpv6_data, 0),
    FIELD(kMisc3 + 256, 8, tunnel.icmp_type, 0),
    FIELD(kMisc3 + 264, 8, tunnel.icmp_code, 0),
    FIELD(kMisc3 + 272, 8, tunnel.icmpv6_type, 0),
    FIELD(kMisc3 + 280, 8, tunnel.icmpv6_code, 0),
    FIELD(kMisc3 + 320, 32, tunnel.gtpu_teid, 0),
    FIELD(kMisc3 + 352, 8, tunnel.gtpu_type, 0),
    FIELD(kMisc3 + 360, 8, tunnel.gtpu_flags, 0),
};
#undef MPLS
#undef FIELD
#undef LAYER
#undef KEY

constexpr auto kFields = [] {
    std::array<MatchField, 2 * std::size(kLayer) + std::size(kOther)> all{};
    size_t count = 0;
    for (MatchField field : kLayer) {
        field.key_bit = static_cast<uint16_t>(field.key_bit + 8 * offsetof(FlowKey, outer));
        all[count++] = field;
    }
    for (MatchField field : kLayer) {
        field.prm_bit = static_cast<uint16_t>(field.prm_bit + kInner);
        field.key_bit = static_cast<uint16_t>(field.key_bit + 8 * offsetof(FlowKey, inner));
        if (field.capability != kNotAnnounced)
            field.capability = static_cast<uint8_t>(field.capability + kInnerCapabilities);
        all[count++] = field;
    }
    for (const MatchField& field : kOther)
        all[count++] = field;
    return all;
}();

using Prm = std::array<uint8_t, kBytes>;

Prm prm_of(std::span<const std::byte> bytes) {
    Prm prm{};
    if (!bytes.empty()) std::memcpy(prm.data(), bytes.data(), std::min(bytes.size(), kBytes));
    return prm;
}

bool is_whole_bytes(const MatchField& field) {
    return (field.prm_bit | field.key_bit | field.width) % 8 == 0;
}

bool bit_of(const uint8_t* bytes, size_t bit) { return bytes[bit / 8] >> (7 - bit % 8) & 1; }
void set_bit(uint8_t* bytes, size_t bit) {
    bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] | 0x80 >> bit % 8);
}

/// Copies into a key in which the field is zero.
void copy_field(const MatchField& field, const Prm& prm, FlowKey& key) {
    auto* const to = reinterpret_cast<uint8_t*>(&key);
    if (is_whole_bytes(field)) {
        std::memcpy(to + field.key_bit / 8, prm.data() + field.prm_bit / 8, field.width / 8);
        return;
    }
    for (size_t i = 0; i < field.width; i++)
        if (bit_of(prm.data(), field.prm_bit + i)) set_bit(to, field.key_bit + i);
}

bool is_of_inner(const MatchField& field) {
    return field.key_bit >= 8 * offsetof(FlowKey, inner) &&
           field.key_bit < 8 * offsetof(FlowKey, tunnel);
}

bool is_asked(const MatchField& field, const Prm& mask) {
    for (size_t i = 0; i < field.width; i++)
        if (bit_of(mask.data(), field.prm_bit + i)) return true;
    return false;
}

/// Every bit of the match parameters that is part of a field.
const Prm& known_bits() {
    static const Prm known = [] {
        Prm bits{};
        for (const MatchField& field : kFields)
            for (size_t i = 0; i < field.width; i++)
                set_bit(bits.data(), field.prm_bit + i);
        return bits;
    }();
    return known;
}

bool is_known(std::span<const std::byte> mask) {
    for (size_t i = 0; i < mask.size(); i++) {
        const uint8_t known = i < kBytes ? known_bits()[i] : 0;
        if ((static_cast<uint8_t>(mask[i]) & ~known) != 0) return false;
    }
    return true;
}

} // namespace

std::span<const MatchField> match_fields() { return kFields; }

std::optional<MatchMask> read_match_mask(std::span<const std::byte> bytes) {
    if (!is_known(bytes)) return {};
    const Prm prm = prm_of(bytes);
    MatchMask out;
    for (const MatchField& field : kFields) {
        if (!is_asked(field, prm)) continue;
        if (field.l4 != 0) {
            uint8_t& l4 = is_of_inner(field) ? out.inner_l4 : out.l4;
            if (l4 != 0 && l4 != field.l4) return {}; // no packet has both
            l4 = field.l4;
        }
        copy_field(field, prm, out.mask);
    }
    if (out.l4 != 0) out.mask.outer.l4 = 0xff;
    if (out.inner_l4 != 0) out.mask.inner.l4 = 0xff;
    return out;
}

core::FlowKey read_match_value(std::span<const std::byte> bytes, const MatchMask& mask) {
    const Prm prm = prm_of(bytes);
    FlowKey value;
    for (const MatchField& field : kFields) {
        const uint8_t l4 = is_of_inner(field) ? mask.inner_l4 : mask.l4;
        if (field.l4 == 0 || field.l4 == l4) copy_field(field, prm, value);
    }
    value.outer.l4 = mask.l4;
    value.inner.l4 = mask.inner_l4;
    return value;
}

} // namespace softhca::prm
