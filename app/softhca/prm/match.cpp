// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/prm/match.hpp"

#include "common/net/endian.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <netinet/in.h>

namespace softhca::prm {
namespace {

using net::be16;
using net::be32;

/// Outer headers: fte_match_set_lyr_2_4 (PRM; struct mlx5_ifc_dr_match_spec_bits of rdma-core).
struct PrmOuter {
    std::array<uint8_t, 6> src_mac;
    be16 ether_type;
    std::array<uint8_t, 6> dst_mac;
    be16 first_tci; ///< priority, CFI, VLAN id: the TCI of the first tag
    uint8_t ip_proto;
    uint8_t dscp_ecn;
    uint8_t flags; ///< kCvlan, kSvlan, kFragment, IP version << 1, TCP flag bit 8
    uint8_t tcp_flags;
    be16 tcp_src_port;
    be16 tcp_dst_port;
    uint8_t reserved[2];
    uint8_t ihl_checks; ///< IPv4 header length << 4, checksum results
    uint8_t ttl;
    be16 udp_src_port;
    be16 udp_dst_port;
    std::array<uint8_t, 16> src_ip; ///< IPv4 in the last four bytes
    std::array<uint8_t, 16> dst_ip;
};
static_assert(sizeof(PrmOuter) == 64);
static_assert(offsetof(PrmOuter, first_tci) == 14 && offsetof(PrmOuter, flags) == 18);
static_assert(offsetof(PrmOuter, ttl) == 27 && offsetof(PrmOuter, src_ip) == 32);
constexpr uint8_t kCvlan = 0x80, kSvlan = 0x40, kFragment = 0x20, kVersionBits = 0x0f,
                  kTcpBit8 = 0x01;

/// Miscellaneous parameters: fte_match_set_misc (struct mlx5_ifc_dr_match_set_misc_bits).
struct PrmMisc {
    uint8_t other0[20];
    be32 vxlan_vni; ///< in the upper 24 bits
    uint8_t other1[4];
    be32 outer_flow_label; ///< 20 bits
    uint8_t other2[32];
};
static_assert(sizeof(PrmMisc) == 64);
static_assert(offsetof(PrmMisc, vxlan_vni) == 20 && offsetof(PrmMisc, outer_flow_label) == 28);
constexpr uint32_t kFlowLabelBits = 0xfffff;
constexpr unsigned kVniShift = 8;

struct PrmMatch {
    PrmOuter outer;
    PrmMisc misc;
};

PrmMatch prm_of(std::span<const std::byte> bytes) {
    PrmMatch prm{};
    if (!bytes.empty()) std::memcpy(&prm, bytes.data(), std::min(bytes.size(), sizeof prm));
    return prm;
}

bool any(std::span<const uint8_t> bytes) {
    return std::ranges::any_of(bytes, [](uint8_t byte) { return byte != 0; });
}
bool any_after(std::span<const std::byte> bytes, size_t known) {
    return bytes.size() > known && std::ranges::any_of(bytes.subspan(known), [](std::byte byte) {
               return byte != std::byte{};
           });
}

/// Everything that is at the same place in value and mask. Flow keys hold flags as whole bytes of
/// 0 or 1 and one pair of ports for TCP and UDP.
core::FlowKey common_fields(const PrmMatch& prm) {
    const PrmOuter& outer = prm.outer;
    core::FlowKey key;
    key.dst_mac = outer.dst_mac;
    key.src_mac = outer.src_mac;
    key.ether_type = outer.ether_type;
    key.vlan_tci = outer.first_tci;
    key.cvlan = (outer.flags & kCvlan) != 0;
    key.svlan = (outer.flags & kSvlan) != 0;
    key.ip_fragment = (outer.flags & kFragment) != 0;
    key.ip_version = outer.flags >> 1 & kVersionBits;
    key.ip_proto = outer.ip_proto;
    key.tos = outer.dscp_ecn;
    key.ttl = outer.ttl;
    key.tcp_flags = outer.tcp_flags;
    key.ipv4_ihl = outer.ihl_checks >> 4;
    key.src_ip = outer.src_ip;
    key.dst_ip = outer.dst_ip;
    key.vxlan_vni = prm.misc.vxlan_vni >> kVniShift;
    key.flow_label = prm.misc.outer_flow_label & kFlowLabelBits;
    return key;
}

bool tcp_asked(const PrmOuter& mask) {
    return mask.tcp_src_port || mask.tcp_dst_port || mask.tcp_flags;
}
bool udp_asked(const PrmOuter& mask) { return mask.udp_src_port || mask.udp_dst_port; }

/// True when the mask has nothing but fields that flow keys have.
bool is_known(const PrmMatch& mask, std::span<const std::byte> all) {
    return !(mask.outer.flags & kTcpBit8) && !any(mask.outer.reserved) &&
           !(mask.outer.ihl_checks & 0x0f) && !any(mask.misc.other0) && !any(mask.misc.other1) &&
           !any(mask.misc.other2) && !(mask.misc.vxlan_vni & ((1u << kVniShift) - 1)) &&
           !(mask.misc.outer_flow_label & ~kFlowLabelBits) && !any_after(all, sizeof mask);
}

} // namespace

std::optional<MatchMask> read_match_mask(std::span<const std::byte> bytes) {
    const PrmMatch prm = prm_of(bytes);
    if (!is_known(prm, bytes)) return {};
    const bool tcp = tcp_asked(prm.outer), udp = udp_asked(prm.outer);
    if (tcp && udp) return {}; // no packet has both
    MatchMask out;
    out.mask = common_fields(prm);
    out.l4 = tcp ? IPPROTO_TCP : udp ? IPPROTO_UDP : 0;
    if (out.l4) out.mask.l4 = 0xff;
    out.mask.src_port = tcp ? prm.outer.tcp_src_port : prm.outer.udp_src_port;
    out.mask.dst_port = tcp ? prm.outer.tcp_dst_port : prm.outer.udp_dst_port;
    return out;
}

core::FlowKey read_match_value(std::span<const std::byte> bytes, const MatchMask& mask) {
    const PrmMatch prm = prm_of(bytes);
    const bool tcp = mask.l4 == IPPROTO_TCP;
    core::FlowKey value = common_fields(prm);
    value.l4 = mask.l4;
    value.src_port = tcp ? prm.outer.tcp_src_port : prm.outer.udp_src_port;
    value.dst_port = tcp ? prm.outer.tcp_dst_port : prm.outer.udp_dst_port;
    return value;
}

} // namespace softhca::prm
