// SPDX-License-Identifier: BSD-3-Clause
// Finds the headers of an Ethernet frame, and what they say.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace net {

inline constexpr uint32_t kEthernetBytes = 14;
inline constexpr uint32_t kVlanBytes = 4;
inline constexpr uint16_t kEtherIpv4 = 0x0800;
inline constexpr uint16_t kEtherVlan = 0x8100;
inline constexpr uint16_t kEtherQinq = 0x88a8;
inline constexpr uint16_t kEtherIpv6 = 0x86dd;
inline constexpr uint16_t kEtherBridged = 0x6558; ///< an Ethernet frame (in GRE)
inline constexpr uint8_t kProtoIpv4 = 4;          ///< IPv4 in IP
inline constexpr uint8_t kProtoTcp = 6;
inline constexpr uint8_t kProtoUdp = 17;
inline constexpr uint8_t kProtoIpv6 = 41; ///< IPv6 in IP
inline constexpr uint8_t kProtoGre = 47;
inline constexpr uint16_t kVxlanPort = 4789;
inline constexpr uint32_t kVxlanBytes = 8;

/// TCP flag bits, as in byte 13 of the header.
enum TcpFlag : uint8_t {
    kTcpFin = 0x01,
    kTcpSyn = 0x02,
    kTcpPsh = 0x08,
    kTcpAck = 0x10,
    kTcpCwr = 0x80
};

/// The destination ports whose datagrams carry VXLAN.
struct VxlanPorts {
    static constexpr size_t kMost = 4;
    std::array<uint16_t, kMost> ports{kVxlanPort}; ///< 0: free

    [[nodiscard]] constexpr bool contain(uint16_t port) const {
        return port != 0 && std::ranges::find(ports, port) != ports.end();
    }
};
inline constexpr VxlanPorts kStandardVxlan;

/// How many bytes of a frame's beginning parse() needs to recognise everything it can.
inline constexpr uint32_t kParseBytes = 256;

/// Offsets count from the start of the frame; 0 means absent.
struct Headers {
    uint16_t l3 = 0;         ///< after the Ethernet header and all VLAN tags
    uint16_t l3_end = 0;     ///< after the IP header and its extensions; not of later fragments
    uint16_t l4 = 0;         ///< TCP or UDP header, complete and in this fragment
    uint16_t payload = 0;    ///< after the TCP or UDP header
    uint16_t inner = 0;      ///< what a tunnel (VXLAN, GRE, IP in IP) carries
    uint16_t inner_type = 0; ///< EtherType of that: IPv4, IPv6, or kEtherBridged for a frame

    uint16_t ether_type = 0; ///< after all VLAN tags
    uint16_t vlan_tci = 0;   ///< of the first tag
    uint16_t first_tag = 0;  ///< its type: kEtherVlan, kEtherQinq or 0

    uint8_t ip_version = 0; ///< 4 or 6 when a complete IP header is there
    uint8_t ip_proto = 0;   ///< IPv6: after the extension headers
    uint8_t tos = 0;        ///< IPv4 TOS or IPv6 traffic class
    uint8_t ttl = 0;        ///< IPv4 TTL or IPv6 hop limit
    uint8_t ipv4_ihl = 0;   ///< in 32-bit words
    uint8_t tcp_flags = 0;
    bool fragment = false;   ///< any fragment, also the first
    bool length_ok = false;  ///< the IP length covers the headers and fits into the frame
    uint32_t flow_label = 0; ///< IPv6
    uint32_t ip_bytes = 0;   ///< IP header and payload, according to the IP header
    uint32_t vni = 0;        ///< of VXLAN, 24 bits

    /// After the TCP or UDP header, which is there.
    [[nodiscard]] bool has_payload() const { return payload < l3 + ip_bytes; }
};

/// `head` is the beginning of the frame (all of it, or kParseBytes and more), `frame_bytes` its
/// full length. Never reads beyond `head`; headers that it cuts off are absent.
[[nodiscard]] Headers parse(std::span<const std::byte> head, uint32_t frame_bytes,
                            const VxlanPorts& vxlan = kStandardVxlan);
/// The headers inside the tunnel found in `outer`; outer.inner is not 0.
[[nodiscard]] Headers parse_inner(std::span<const std::byte> head, uint32_t frame_bytes,
                                  const Headers& outer);

/// The same for headers without payload whose IP length fields are not filled in yet (TSO).
[[nodiscard]] Headers parse_template(std::span<const std::byte> head,
                                     const VxlanPorts& vxlan = kStandardVxlan);
[[nodiscard]] Headers parse_inner_template(std::span<const std::byte> head, const Headers& outer);

} // namespace net
