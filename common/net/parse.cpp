// SPDX-License-Identifier: BSD-3-Clause
#include "common/net/parse.hpp"

#include "common/net/endian.hpp"

namespace net {
namespace {

/// Reads header fields at offsets that the caller has checked with fits().
class Cursor {
  public:
    Cursor(std::span<const std::byte> head, uint32_t at) : head_(head), at_(at) {}

    [[nodiscard]] bool fits(uint32_t bytes) const { return at_ + size_t{bytes} <= head_.size(); }
    [[nodiscard]] uint8_t u8(uint32_t offset) const {
        return static_cast<uint8_t>(head_[at_ + offset]);
    }
    [[nodiscard]] uint16_t u16(uint32_t offset) const {
        return load_be<uint16_t>(&head_[at_ + offset]);
    }
    [[nodiscard]] uint32_t u32(uint32_t offset) const {
        return load_be<uint32_t>(&head_[at_ + offset]);
    }
    void skip(uint32_t bytes) { at_ += bytes; }
    [[nodiscard]] uint16_t at() const { return static_cast<uint16_t>(at_); }

  private:
    std::span<const std::byte> head_;
    uint32_t at_;
};

/// Steps over the Ethernet header and the VLAN tags; false when they are cut off.
bool parse_ethernet(Cursor& cursor, Headers& headers) {
    constexpr int kMaxTags = 4;
    if (!cursor.fits(kEthernetBytes)) return false;
    uint16_t type = cursor.u16(12);
    cursor.skip(kEthernetBytes);
    for (int tag = 0; type == kEtherVlan || type == kEtherQinq; tag++) {
        if (tag == kMaxTags || !cursor.fits(kVlanBytes)) break;
        if (tag == 0) {
            headers.first_tag = type;
            headers.vlan_tci = cursor.u16(0);
        }
        type = cursor.u16(2);
        cursor.skip(kVlanBytes);
    }
    headers.ether_type = type;
    headers.l3 = cursor.at();
    return true;
}

/// Steps to the L4 header; false when this is no usable IPv4 header.
bool parse_ipv4(Cursor& cursor, Headers& headers, uint32_t available, bool& first_fragment) {
    if (!cursor.fits(20) || cursor.u8(0) >> 4 != 4) return false;
    const uint8_t ihl = cursor.u8(0) & 0xf;
    if (ihl < 5 || !cursor.fits(ihl * 4u)) return false;
    const uint16_t fragment = cursor.u16(6) & 0x3fff; // more-fragments bit and offset
    headers.ip_version = 4;
    headers.ipv4_ihl = ihl;
    headers.tos = cursor.u8(1);
    headers.ip_bytes = cursor.u16(2);
    headers.ttl = cursor.u8(8);
    headers.ip_proto = cursor.u8(9);
    headers.fragment = fragment != 0;
    first_fragment = (fragment & 0x1fff) == 0;
    headers.length_ok = headers.ip_bytes >= ihl * 4u && headers.ip_bytes <= available;
    cursor.skip(ihl * 4u);
    return true;
}

/// Steps over the extension headers to the L4 header; false when this is no usable IPv6 header or
/// when the chain is cut off.
bool parse_ipv6(Cursor& cursor, Headers& headers, uint32_t available, bool& first_fragment) {
    constexpr int kMaxExtensions = 8;
    constexpr uint8_t kHopByHop = 0, kRouting = 43, kFragment = 44, kAuth = 51, kDestination = 60;
    if (!cursor.fits(40) || cursor.u8(0) >> 4 != 6) return false;
    const uint32_t word = cursor.u32(0);
    headers.ip_version = 6;
    headers.tos = static_cast<uint8_t>(word >> 20);
    headers.flow_label = word & 0xfffff;
    headers.ip_bytes = 40u + cursor.u16(4);
    headers.ip_proto = cursor.u8(6);
    headers.ttl = cursor.u8(7);
    headers.length_ok = headers.ip_bytes <= available;
    cursor.skip(40);
    for (int i = 0; i < kMaxExtensions; i++) {
        const uint8_t type = headers.ip_proto;
        if (type != kHopByHop && type != kRouting && type != kFragment && type != kAuth &&
            type != kDestination)
            return true;
        if (!cursor.fits(8)) return false;
        uint32_t bytes = 8;
        if (type == kFragment) {
            const uint16_t offset = cursor.u16(2);
            headers.fragment = true;
            first_fragment = (offset & 0xfff8) == 0;
        } else {
            bytes = type == kAuth ? (cursor.u8(1) + 2u) * 4 : (cursor.u8(1) + 1u) * 8;
        }
        if (!cursor.fits(bytes)) return false;
        headers.ip_proto = cursor.u8(0);
        cursor.skip(bytes);
        if (!first_fragment) return true; // what follows is data
    }
    return false;
}

/// Steps over the GRE header (RFC 2784, 2890; NVGRE) to what it carries.
void parse_gre(Cursor& cursor, Headers& headers) {
    constexpr uint16_t kChecksum = 0x8000, kKey = 0x2000, kSequence = 0x1000;
    if (!cursor.fits(4)) return;
    const uint16_t flags = cursor.u16(0);
    const uint16_t type = cursor.u16(2);
    if ((flags & ~(kChecksum | kKey | kSequence)) != 0) return; // another version, or routing
    if (type != kEtherIpv4 && type != kEtherIpv6 && type != kEtherBridged) return;
    uint32_t bytes = 4;
    for (const uint16_t option : {kChecksum, kKey, kSequence})
        if ((flags & option) != 0) bytes += 4;
    if (!cursor.fits(bytes)) return;
    headers.inner = static_cast<uint16_t>(cursor.at() + bytes);
    headers.inner_type = type;
}

void parse_l4(Cursor& cursor, Headers& headers, uint32_t ip_end, const VxlanPorts& vxlan) {
    if (headers.ip_proto == kProtoTcp && cursor.fits(20)) {
        const uint32_t bytes = (cursor.u8(12) >> 4) * 4u;
        if (bytes < 20 || !cursor.fits(bytes) || cursor.at() + bytes > ip_end) return;
        headers.l4 = cursor.at();
        headers.tcp_flags = cursor.u8(13);
        headers.payload = static_cast<uint16_t>(headers.l4 + bytes);
    } else if (headers.ip_proto == kProtoUdp && cursor.fits(8) && cursor.at() + 8u <= ip_end) {
        headers.l4 = cursor.at();
        headers.payload = static_cast<uint16_t>(headers.l4 + 8);
        if (!vxlan.contain(cursor.u16(2)) || headers.fragment) return;
        cursor.skip(8);
        if (!cursor.fits(kVxlanBytes + kEthernetBytes) || !(cursor.u8(0) & 0x08)) return;
        headers.vni = cursor.u32(4) >> 8;
        headers.inner = static_cast<uint16_t>(cursor.at() + kVxlanBytes);
        headers.inner_type = kEtherBridged;
    } else if (headers.fragment) {
        return;
    } else if (headers.ip_proto == kProtoGre) {
        parse_gre(cursor, headers);
    } else if (headers.ip_proto == kProtoIpv4 || headers.ip_proto == kProtoIpv6) {
        headers.inner = cursor.at();
        headers.inner_type = headers.ip_proto == kProtoIpv4 ? kEtherIpv4 : kEtherIpv6;
    }
}

/// Parses from `start`, where `type` lies: a frame (kEtherBridged) or what follows its L2 headers.
Headers parse(std::span<const std::byte> head, uint32_t frame_bytes, uint32_t start, uint16_t type,
              bool trust_length, const VxlanPorts& vxlan = kStandardVxlan) {
    Headers headers;
    Cursor cursor(head, start);
    if (type == kEtherBridged) {
        if (!parse_ethernet(cursor, headers)) return headers;
    } else {
        headers.ether_type = type;
        headers.l3 = cursor.at();
    }
    const uint32_t available = frame_bytes > headers.l3 ? frame_bytes - headers.l3 : 0;
    bool first_fragment = true;
    bool to_l4 = false;
    if (headers.ether_type == kEtherIpv4)
        to_l4 = parse_ipv4(cursor, headers, available, first_fragment);
    else if (headers.ether_type == kEtherIpv6)
        to_l4 = parse_ipv6(cursor, headers, available, first_fragment);
    const uint32_t ip_end = trust_length ? headers.l3 + headers.ip_bytes : ~0u;
    if (to_l4 && first_fragment) {
        headers.l3_end = cursor.at();
        parse_l4(cursor, headers, ip_end, vxlan);
    }
    return headers;
}

} // namespace

Headers parse(std::span<const std::byte> head, uint32_t frame_bytes, const VxlanPorts& vxlan) {
    return parse(head, frame_bytes, 0, kEtherBridged, true, vxlan);
}

Headers parse_inner(std::span<const std::byte> head, uint32_t frame_bytes, const Headers& outer) {
    return parse(head, frame_bytes, outer.inner, outer.inner_type, true);
}

Headers parse_template(std::span<const std::byte> head, const VxlanPorts& vxlan) {
    return parse(head, static_cast<uint32_t>(head.size()), 0, kEtherBridged, false, vxlan);
}

Headers parse_inner_template(std::span<const std::byte> head, const Headers& outer) {
    return parse(head, static_cast<uint32_t>(head.size()), outer.inner, outer.inner_type, false);
}

} // namespace net
