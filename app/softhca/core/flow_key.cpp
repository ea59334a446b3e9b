// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/flow_key.hpp"

#include "common/net/parse.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace softhca::core {
namespace {

constexpr uint8_t kProtoIcmp = 1, kProtoIcmpv6 = 58;
constexpr uint16_t kEtherMpls = 0x8847, kEtherMplsMulticast = 0x8848;
constexpr uint32_t kUdpBytes = 8, kIcmpBytes = 8;
constexpr uint32_t kMplsBytes = 4, kMostLabels = 8;

bool is_mpls(uint16_t type) { return type == kEtherMpls || type == kEtherMplsMulticast; }

/// A header somewhere in the frame; the caller must not read beyond its end.
struct Bytes {
    std::span<const std::byte> head;
    [[nodiscard]] bool fits(uint32_t at, uint32_t bytes) const {
        return at + size_t{bytes} <= head.size();
    }
    [[nodiscard]] uint8_t u8(uint32_t at) const { return static_cast<uint8_t>(head[at]); }
    [[nodiscard]] uint16_t u16(uint32_t at) const { return net::load_be<uint16_t>(&head[at]); }
    [[nodiscard]] uint32_t u32(uint32_t at) const { return net::load_be<uint32_t>(&head[at]); }
};

/// IP packets after headers that do not state the version.
Inner ip_at(const Bytes& frame, uint32_t at) {
    if (!frame.fits(at, 1)) return {};
    switch (frame.u8(at) >> 4) {
    case 4: return {at, net::kEtherIpv4};
    case 6: return {at, net::kEtherIpv6};
    default: return {};
    }
}

/// After the labels: IP if it looks like that, else a frame.
Inner skip_labels(const Bytes& frame, uint32_t at) {
    constexpr uint32_t kBottom = 0x100;
    for (uint32_t i = 0; i < kMostLabels && frame.fits(at, kMplsBytes); i++, at += kMplsBytes) {
        if (!(frame.u32(at) & kBottom)) continue;
        const Inner ip = ip_at(frame, at + kMplsBytes);
        return ip.at != 0 ? ip : Inner{at + kMplsBytes, net::kEtherBridged};
    }
    return {};
}

void extract_layer(const net::Headers& headers, const Bytes& frame, uint32_t start, bool has_l2,
                   LayerKey& key) {
    const std::byte* const head = frame.head.data();
    if (has_l2) {
        std::memcpy(key.dst_mac.data(), head + start, 6);
        std::memcpy(key.src_mac.data(), head + start + 6, 6);
    }
    key.ether_type = headers.ether_type;
    if (headers.first_tag != 0) {
        key.vlan_tci = headers.vlan_tci;
        key.cvlan = headers.first_tag == net::kEtherVlan;
        key.svlan = headers.first_tag == net::kEtherQinq;
        const uint32_t second = start + 12 + net::kVlanBytes; // type and TCI of the second tag
        if (second + net::kVlanBytes < headers.l3) {
            key.second_tci = frame.u16(second + 2);
            key.second_cvlan = frame.u16(second) == net::kEtherVlan;
            key.second_svlan = frame.u16(second) == net::kEtherQinq;
        }
    }
    key.ip_version = headers.ip_version;
    key.ip_proto = headers.ip_proto;
    key.tos = headers.tos;
    key.ttl = headers.ttl;
    key.ip_fragment = headers.fragment;
    key.ipv4_ihl = headers.ipv4_ihl;
    key.flow_label = headers.flow_label;
    const std::byte* const l3 = head + headers.l3;
    if (headers.ip_version == 4) {
        std::memcpy(key.src_ip.data() + 12, l3 + 12, 4);
        std::memcpy(key.dst_ip.data() + 12, l3 + 16, 4);
    } else if (headers.ip_version == 6) {
        std::memcpy(key.src_ip.data(), l3 + 8, 16);
        std::memcpy(key.dst_ip.data(), l3 + 24, 16);
    }
    if (headers.l4 != 0) {
        key.l4 = headers.ip_proto;
        if (headers.ip_proto == net::kProtoTcp) {
            key.tcp_sequence = frame.u32(headers.l4 + 4);
            key.tcp_ack = frame.u32(headers.l4 + 8);
            key.tcp_flags = frame.u16(headers.l4 + 12) & 0x1ff;
        }
        std::memcpy(&key.src_port, head + headers.l4, 2);
        std::memcpy(&key.dst_port, head + headers.l4 + 2, 2);
    }
}

Inner extract_gre(const Bytes& frame, uint32_t at, TunnelKey& key) {
    constexpr uint16_t kChecksum = 0x8000, kKey = 0x2000, kSequence = 0x1000, kVersion = 0x7;
    if (!frame.fits(at, 4) || (frame.u16(at) & kVersion) != 0) return {};
    const uint16_t flags = frame.u16(at);
    key.gre_checksum = (flags & kChecksum) != 0;
    key.gre_has_key = (flags & kKey) != 0;
    key.gre_sequence = (flags & kSequence) != 0;
    key.gre_protocol = frame.u16(at + 2);
    const uint32_t key_at = at + 4 + 4u * key.gre_checksum;
    if (key.gre_has_key && frame.fits(key_at, 4)) key.gre_key = frame.u32(key_at);
    const uint32_t after = key_at + 4u * key.gre_has_key + 4u * key.gre_sequence;
    if (!is_mpls(key.gre_protocol) || !frame.fits(after, kMplsBytes)) return {};
    key.mpls_over_gre = frame.u32(after);
    return skip_labels(frame, after);
}

Inner extract_gtpu(const Bytes& frame, uint32_t at, TunnelKey& key) {
    constexpr uint8_t kAnyOption = 0x7, kExtension = 0x4, kGpdu = 255;
    constexpr uint32_t kBytes = 8, kOptionBytes = 4;
    if (!frame.fits(at, kBytes)) return {};
    key.gtpu_flags = frame.u8(at);
    key.gtpu_type = frame.u8(at + 1);
    key.gtpu_teid = frame.u32(at + 4);
    if (key.gtpu_type != kGpdu) return {};
    uint32_t after = at + kBytes;
    if (key.gtpu_flags & kAnyOption) {
        after += kOptionBytes;
        // Extension headers: length in words first, the type of the next one last.
        bool more = (key.gtpu_flags & kExtension) != 0;
        while (more && frame.fits(after - 1, 2) && frame.u8(after - 1) != 0) {
            more = frame.u8(after) != 0;
            after += frame.u8(after) * 4u;
        }
    }
    return ip_at(frame, after);
}

Inner extract_gpe(const Bytes& frame, uint32_t at, TunnelKey& key) {
    constexpr uint8_t kIpv4 = 1, kIpv6 = 2, kEthernet = 3;
    if (!frame.fits(at, net::kVxlanBytes)) return {};
    key.gpe_flags = frame.u8(at);
    key.gpe_protocol = frame.u8(at + 3);
    key.gpe_vni = frame.u32(at + 4) >> 8;
    const uint32_t after = at + net::kVxlanBytes;
    switch (key.gpe_protocol) {
    case kIpv4: return {after, net::kEtherIpv4};
    case kIpv6: return {after, net::kEtherIpv6};
    case kEthernet: return {after, net::kEtherBridged};
    default: return {};
    }
}

Inner extract_geneve(const Bytes& frame, uint32_t at, TunnelKey& key) {
    constexpr uint8_t kOptions = 0x3f, kOam = 0x80;
    constexpr uint32_t kBytes = 8;
    if (!frame.fits(at, kBytes)) return {};
    key.geneve_options = frame.u8(at) & kOptions;
    key.geneve_oam = (frame.u8(at + 1) & kOam) != 0;
    key.geneve_protocol = frame.u16(at + 2);
    key.geneve_vni = frame.u32(at + 4) >> 8;
    const uint16_t type = key.geneve_protocol;
    if (type != net::kEtherBridged && type != net::kEtherIpv4 && type != net::kEtherIpv6) return {};
    const uint32_t after = at + kBytes + key.geneve_options * 4u;
    if (!frame.fits(after, 0)) return {}; // it claims more options than there are bytes
    return {after, type};
}

Inner extract_mpls(const Bytes& frame, uint32_t at, TunnelKey& key) {
    if (!frame.fits(at, kMplsBytes)) return {};
    key.mpls_over_udp = frame.u32(at);
    return skip_labels(frame, at);
}

/// In addition to VXLAN, which net::parse() finds.
struct UdpTunnel {
    uint16_t port;
    Inner (*extract)(const Bytes& frame, uint32_t at, TunnelKey& key);
};
constexpr UdpTunnel kUdpTunnels[] = {
    {2152, extract_gtpu}, {4790, extract_gpe}, {6081, extract_geneve}, {6635, extract_mpls}};

const UdpTunnel* find_udp_tunnel(uint16_t port) {
    const auto* const found = std::ranges::find(kUdpTunnels, port, &UdpTunnel::port);
    return found == std::end(kUdpTunnels) ? nullptr : found;
}

/// What follows the IP header, unless the packet is a later fragment.
Inner extract_behind_ip(const net::Headers& headers, const Bytes& frame, TunnelKey& key) {
    const uint32_t at = headers.l3_end;
    switch (headers.ip_proto) {
    case net::kProtoUdp:
        if (headers.l4 == 0 || headers.fragment) return {};
        if (const UdpTunnel* const tunnel = find_udp_tunnel(frame.u16(at + 2)))
            return tunnel->extract(frame, at + kUdpBytes, key);
        return {};
    case net::kProtoGre: return headers.fragment ? Inner{} : extract_gre(frame, at, key);
    case kProtoEsp:
        if (frame.fits(at, 4)) key.esp_spi = frame.u32(at);
        return {};
    case kProtoIcmp:
        if (!frame.fits(at, kIcmpBytes) || headers.ip_version != 4) return {};
        key.icmp_type = frame.u8(at);
        key.icmp_code = frame.u8(at + 1);
        key.icmp_data = frame.u32(at + 4);
        return {};
    case kProtoIcmpv6:
        if (!frame.fits(at, kIcmpBytes) || headers.ip_version != 6) return {};
        key.icmpv6_type = frame.u8(at);
        key.icmpv6_code = frame.u8(at + 1);
        key.icmpv6_data = frame.u32(at + 4);
        return {};
    default: return {};
    }
}

} // namespace

net::Headers parse_carried(const net::Headers& headers, const Inner& inner,
                           std::span<const std::byte> head, uint32_t frame_bytes) {
    net::Headers tunnel = headers;
    tunnel.inner = static_cast<uint16_t>(inner.at);
    tunnel.inner_type = inner.type;
    return net::parse_inner(head, frame_bytes, tunnel);
}

void find_carried(net::Headers& headers, std::span<const std::byte> head) {
    if (headers.inner != 0 || headers.l3_end == 0) return;
    TunnelKey tunnel;
    const Inner inner = extract_behind_ip(headers, Bytes{head}, tunnel);
    if (tunnel.gpe_protocol != 0) return;
    headers.inner = static_cast<uint16_t>(inner.at);
    headers.inner_type = inner.type;
}

bool is_tunnel_port(uint16_t port, const net::VxlanPorts& vxlan) {
    return vxlan.contain(port) || find_udp_tunnel(port) != nullptr;
}

Inner extract(const net::Headers& headers, std::span<const std::byte> head, uint32_t frame_bytes,
              FlowKey& key) {
    const Bytes frame{head};
    extract_layer(headers, frame, 0, true, key.outer);
    Inner inner;
    if (is_mpls(headers.ether_type) && frame.fits(headers.l3, kMplsBytes)) {
        key.tunnel.mpls = frame.u32(headers.l3);
        inner = skip_labels(frame, headers.l3);
    }
    if (headers.l3_end != 0) {
        key.tunnel.vxlan_vni = headers.vni;
        inner = extract_behind_ip(headers, frame, key.tunnel);
        if (headers.inner != 0) inner = {headers.inner, headers.inner_type};
    }
    if (inner.at == 0) return {};

    const bool has_l2 = inner.type == net::kEtherBridged;
    if (has_l2 && !frame.fits(inner.at, net::kEthernetBytes)) return {};
    const net::Headers carried = parse_carried(headers, inner, head, frame_bytes);
    extract_layer(carried, frame, inner.at, has_l2, key.inner);
    if (is_mpls(carried.ether_type) && frame.fits(carried.l3, kMplsBytes))
        key.tunnel.inner_mpls = frame.u32(carried.l3);
    return inner;
}

} // namespace softhca::core
