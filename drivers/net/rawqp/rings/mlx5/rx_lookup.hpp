// SPDX-License-Identifier: BSD-3-Clause
// The tables of rx_tables.hpp cut into 16-byte pieces, for byte shuffles. Two small indices take
// the place of one large one; every entry is computed from the scalar tables' functions.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_tables.hpp"

namespace rawqp::mlx5rings {

using Lookup = std::array<uint8_t, 16>;

/// First index: L3 type (Cqe::l4_l3_type bits 3:2), then kL3Ok, then kL4Ok.
constexpr unsigned kLookupL3Ok = 1u << 2;
constexpr unsigned kLookupL4Ok = 1u << 3;
/// Second index: the high nibble of Cqe::l4_l3_type, L4 type and fragment.

/// Bits of a verdict: those of RTE_MBUF_F_RX_* in place but L4_CKSUM_GOOD, which is out of a byte's
/// range and stands at bit 0.
constexpr uint8_t kVerdictL4Good = RTE_MBUF_F_RX_L4_CKSUM_GOOD >> 8;
constexpr uint8_t kVerdictL4 = kVerdictL4Good | RTE_MBUF_F_RX_L4_CKSUM_BAD;
constexpr uint8_t kVerdictIp = RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_BAD;
static_assert(RTE_MBUF_F_RX_L4_CKSUM_GOOD == 1u << 8 && (kVerdictL4 & kVerdictIp) == 0);

constexpr uint8_t kSomeUdp = static_cast<uint8_t>(mlx5::CqeL4::udp) << 4;

/// Verdict by the first index, as if L4 were UDP.
inline constexpr Lookup kVerdicts = [] {
    Lookup table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        const auto ok = static_cast<uint8_t>((i & kLookupL3Ok ? mlx5::kL3Ok : 0) |
                                             (i & kLookupL4Ok ? mlx5::kL4Ok : 0));
        const uint64_t flags = receive_flags(ok, static_cast<uint8_t>((i & 3) << 2 | kSomeUdp));
        table[i] = static_cast<uint8_t>((flags & 0xff) | flags >> 8);
    }
    return table;
}();

/// By the second index: what of the verdict holds.
inline constexpr Lookup kVerdictMasks = [] {
    Lookup table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        constexpr uint8_t kAllOk = mlx5::kL3Ok | mlx5::kL4Ok;
        constexpr uint8_t kIpv6 = static_cast<uint8_t>(mlx5::CqeL3::ipv6) << 2;
        const uint64_t flags = receive_flags(kAllOk, static_cast<uint8_t>(i << 4 | kIpv6));
        table[i] = flags != 0 ? kVerdictIp | kVerdictL4 : kVerdictIp;
    }
    return table;
}();

/// Low byte of the packet type (L2, L3) by the first index.
inline constexpr Lookup kTypesL3 = [] {
    Lookup table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = static_cast<uint8_t>(packet_type(static_cast<uint8_t>((i & 3) << 2)));
    return table;
}();

/// 0xff by the first index where L3 is IP.
inline constexpr Lookup kTypeMasks = [] {
    Lookup table{};
    for (unsigned i = 0; i < table.size(); ++i)
        table[i] = kTypesL3[i] != RTE_PTYPE_L2_ETHER ? 0xff : 0;
    return table;
}();

/// Second byte of the packet type (L4) by the second index.
inline constexpr Lookup kTypesL4 = [] {
    Lookup table{};
    for (unsigned i = 0; i < table.size(); ++i) {
        constexpr uint8_t kIpv4 = static_cast<uint8_t>(mlx5::CqeL3::ipv4) << 2;
        table[i] = static_cast<uint8_t>(packet_type(static_cast<uint8_t>(i << 4 | kIpv4)) >> 8);
    }
    return table;
}();

} // namespace rawqp::mlx5rings
