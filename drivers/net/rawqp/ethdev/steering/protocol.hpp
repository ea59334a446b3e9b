// SPDX-License-Identifier: BSD-3-Clause
// The headers that rules match: which ones exist, their fields, and how one follows another. Tables
// of constants, by which rules are translated, written as the device wants them, and explained.
#pragma once

#include "drivers/net/rawqp/ethdev/steering/layer_bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rawqp {

/// A header by its meaning and its place: the device has different names for the fields of a second
/// VLAN tag, and for those of an MPLS label depending on what carries it.
enum class Protocol : uint8_t {
    eth,
    vlan,
    second_vlan,
    arp,
    mpls,
    mpls_in_udp,
    mpls_in_gre,
    ipv4,
    ipv6,
    tcp,
    udp,
    icmp,
    icmp6,
    igmp,
    esp,
    ah,
    gre,
    gre_key,
    nvgre,
    vxlan,
    vxlan_gpe,
    geneve,
    gtp,
    meta, ///< not headers, from here on: what rules tell those of later groups about a packet
    tag,
    mark,
    color,     ///< set by a meter
    sent_meta, ///< also what the application tells about it
};
inline constexpr size_t kProtocols = static_cast<size_t>(Protocol::sent_meta) + 1;
[[nodiscard]] constexpr bool is_metadata(Protocol protocol) { return protocol >= Protocol::meta; }
inline constexpr uint16_t kTags = 4, kTagBits = 32; ///< of layer tag, one after the other
inline constexpr uint32_t kMarked = 1u << 31; ///< of layer mark, besides the id: there is a mark

/// Of the registers C, the one where meters leave their color.
inline constexpr uint16_t kColorRegister = 5;

/// A field of a layer's bytes. Bit numbers count from a byte's most significant bit, as RFCs draw
/// headers.
struct Field {
    static constexpr uint16_t kNone = 0xffff;
    static constexpr uint16_t kImplied = 0xfffe;
    /// Its place in the value and the mask of a verbs flow spec.
    struct VerbsPlace {
        uint16_t spec = 0; ///< IBV_FLOW_SPEC_*; 0: none carries it; kImplied: the layer says it
        uint16_t bit = 0;
    };
    /// Its place in fte_match_param of the PRM (mlx5_ifc.h of Linux).
    struct Mlx5Place {
        uint16_t outer = kNone, inner = kNone; ///< before a tunnel's header, and after it
    };

    const char* name; ///< as testpmd writes it
    uint16_t bit, bits;
    VerbsPlace verbs{};
    Mlx5Place mlx5{};
    const char* remedy = "clear its mask"; ///< if there is no place for what was asked
};

struct ProtocolTraits {
    const char* name;    ///< of the rte_flow item
    uint8_t bytes;       ///< of the header, as far as it has fields
    bool tunnel;         ///< what follows is inside it
    uint16_t verbs_spec; ///< with which verbs asks for the header; 0: only by the one before it
    /// The spec alone asks for the header: fields that announce it are left out.
    bool verbs_implies;
    /// What is constant in its first four bytes and has to be matched.
    uint32_t fixed = 0, fixed_mask = 0;
};

struct ProtocolRow {
    ProtocolTraits traits;
    std::span<const Field> fields;
};
extern const std::array<ProtocolRow, kProtocols> kProtocolRows; ///< indexed by Protocol

[[nodiscard]] inline const ProtocolTraits& traits_of(Protocol protocol) {
    return kProtocolRows[static_cast<size_t>(protocol)].traits;
}
/// Several fields may have the same bits: then the device has to be asked for each.
[[nodiscard]] inline std::span<const Field> fields_of(Protocol protocol) {
    return kProtocolRows[static_cast<size_t>(protocol)].fields;
}

/// How a header announces the one that follows it.
struct Binding {
    Protocol lower, upper;
    uint16_t bit, bits; ///< in the lower header; no bits: it does not announce the upper one
    uint16_t value;
};
[[nodiscard]] std::span<const Binding> bindings();
/// The bindings with this lower header.
[[nodiscard]] std::span<const Binding> bindings_of(Protocol lower);

/// Bits of a header, for people: as a number up to 32 bits, else as bytes.
[[nodiscard]] std::string number_text(std::span<const uint8_t> bytes, size_t bit, size_t count);

inline constexpr uint16_t kVlanId = 4, kVlanIdBits = 12; ///< of a vlan layer

// Flags, which are after the header.
inline constexpr uint16_t kFirstFlag = 8 * kLongestHeader;
inline constexpr uint16_t kTagged = kFirstFlag;          ///< eth, vlan: (another) VLAN tag follows
inline constexpr uint16_t kCustomerTag = kFirstFlag + 1; ///< vlan: its TPID is 0x8100
inline constexpr uint16_t kServiceTag = kFirstFlag + 2;  ///< vlan: its TPID is 0x88a8
inline constexpr uint16_t kFragment = kFirstFlag;        ///< ipv4, ipv6: part of a packet
inline constexpr uint16_t kOtherFlags = kFirstFlag + 7;  ///< what rte_flow has and devices do not

} // namespace rawqp
