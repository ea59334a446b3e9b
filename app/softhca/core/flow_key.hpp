// SPDX-License-Identifier: BSD-3-Clause
// The header fields of one packet that steering may match on, at fixed offsets.
#pragma once

#include "common/net/endian.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace net {
struct Headers;
struct VxlanPorts;
} // namespace net

namespace softhca::core {

inline constexpr uint8_t kProtoEsp = 50; ///< in an IP header

/// Which parts of a layer are sound. Bits in the order of the PRM.
struct Integrity {
    static constexpr uint8_t kL3 = 8; ///< an IP header whose length fits into the packet
    static constexpr uint8_t kL4 = 4; ///< a TCP or UDP header whose length does
    static constexpr uint8_t kIpv4Checksum = 2;
    static constexpr uint8_t kL4Checksum = 1;
};

/// L2 to L4 of a packet, or of a tunnel's payload. Absent headers leave zeros.
struct LayerKey {
    std::array<uint8_t, 6> dst_mac{};
    std::array<uint8_t, 6> src_mac{};
    net::be16 ether_type{0}; ///< after all VLAN tags
    net::be16 vlan_tci{0};   ///< of the first tag
    net::be16 second_tci{0};
    uint8_t cvlan = 0; ///< 1: first tag is 802.1Q
    uint8_t svlan = 0; ///< 1: first tag is 802.1ad
    uint8_t second_cvlan = 0;
    uint8_t second_svlan = 0;
    uint8_t ip_version = 0;  ///< 4, 6 or 0
    uint8_t ip_proto = 0;    ///< IPv6: after the extension headers
    uint8_t tos = 0;         ///< IPv4 TOS / IPv6 traffic class
    uint8_t ttl = 0;         ///< IPv4 TTL / IPv6 hop limit
    uint8_t ip_fragment = 0; ///< 1: any fragment
    uint8_t ipv4_ihl = 0;
    uint8_t l4 = 0;         ///< 6 TCP, 17 UDP: the L4 header is really there (not a later fragment)
    uint8_t integrity = 0;  ///< Integrity, filled in on demand only: Packet::verified_key()
    net::be16 tcp_flags{0}; ///< nine bits
    net::be16 src_port{0};
    net::be16 dst_port{0};
    net::be32 flow_label{0};
    net::be32 tcp_sequence{0}; ///< these differ from packet to packet of a flow
    net::be32 tcp_ack{0};
    std::array<uint8_t, 16> src_ip{}; ///< IPv4 in the last four bytes
    std::array<uint8_t, 16> dst_ip{};
};
static_assert(sizeof(LayerKey) == 80 && sizeof(LayerKey) % 8 == 0);

/// Headers that belong to neither: tunnels, MPLS, ESP, ICMP. Absent ones leave zeros.
struct TunnelKey {
    uint8_t gre_checksum = 0; ///< 1: the GRE header has that option
    uint8_t gre_has_key = 0;
    uint8_t gre_sequence = 0;
    uint8_t geneve_oam = 0;
    net::be16 gre_protocol{0};
    net::be16 geneve_protocol{0};
    net::be32 gre_key{0};   ///< NVGRE: VSID and flow id
    net::be32 vxlan_vni{0}; ///< 24 bits; after UDP port 4789
    net::be32 geneve_vni{0};
    net::be32 gpe_vni{0};
    net::be32 gtpu_teid{0};
    net::be32 esp_spi{0};
    net::be32 mpls{0};          ///< first label stack entry after the Ethernet header …
    net::be32 inner_mpls{0};    ///< … after that of the inner frame …
    net::be32 mpls_over_gre{0}; ///< … and as a tunnel's payload
    net::be32 mpls_over_udp{0};
    uint8_t geneve_options = 0; ///< length in 32-bit words
    uint8_t gpe_protocol = 0;
    uint8_t gpe_flags = 0;
    uint8_t gtpu_type = 0;
    uint8_t gtpu_flags = 0;
    uint8_t icmp_type = 0;
    uint8_t icmp_code = 0;
    uint8_t icmpv6_type = 0;
    uint8_t icmpv6_code = 0;
    uint8_t reserved[3]{};
    net::be32 icmp_data{0}; ///< the second word: identifier and sequence number of an echo
    net::be32 icmpv6_data{0};
    uint8_t reserved1[4]{};
};
static_assert(sizeof(TunnelKey) == 72);

/// What travels with a packet without being in any of its headers.
struct MetaKey {
    net::be32 reg_a{0}; ///< of what is sent: the WQE's flow table metadata
    net::be32 source_sqn{0};
    net::be32 reg_c[8]{}; ///< as rules have set them
    net::be32 reg_b{0};   ///< likewise; not to be matched, reported in the CQE
    uint8_t reserved[4]{};
};
static_assert(sizeof(MetaKey) == 48);

/// Extracted once per packet; rules hold a value and a mask of the same shape. Padding-free, so it
/// can be compared, masked and hashed as 64-bit words.
struct FlowKey {
    LayerKey outer;
    LayerKey inner; ///< the tunnel's payload
    TunnelKey tunnel;
    MetaKey meta;
};
static_assert(sizeof(FlowKey) == 280 && sizeof(FlowKey) % 8 == 0);
static_assert(std::has_unique_object_representations_v<FlowKey>);

/// A tunnel's payload.
struct Inner {
    uint32_t at = 0;   ///< from the start of the frame; 0: no tunnel that steering looks into
    uint16_t type = 0; ///< EtherType, or net::kEtherBridged for a frame
};

/// For headers that net::parse() has read: adds the payload of the other tunnels that offloads look
/// into, which VXLAN-GPE is not. `head` is what net::parse() has read.
void find_carried(net::Headers& headers, std::span<const std::byte> head);
/// Whether steering looks for a tunnel in packets to this UDP port.
[[nodiscard]] bool is_tunnel_port(uint16_t port, const net::VxlanPorts& vxlan);

/// The headers of the payload that extract() found in a packet with these headers.
[[nodiscard]] net::Headers parse_carried(const net::Headers& headers, const Inner& inner,
                                         std::span<const std::byte> head, uint32_t frame_bytes);

/// Fills in the fields of a packet; `key` is all zeros except for what is not a header. `head` is
/// the beginning of the frame, as net::parse() requires it, and `headers` its result.
Inner extract(const net::Headers& headers, std::span<const std::byte> head, uint32_t frame_bytes,
              FlowKey& key);

} // namespace softhca::core
