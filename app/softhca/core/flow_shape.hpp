// SPDX-License-Identifier: BSD-3-Clause
// The bytes of a plain frame that parsing and steering depend on.
#pragma once

#include "app/softhca/core/packet.hpp"
#include "common/net/endian.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace softhca::core {

/// These bytes, as eight-byte words. Plain means Ethernet, at most one VLAN tag, IPv4 without
/// options or IPv6 without extension headers, complete TCP or UDP headers, no tunnel.
struct FlowShape {
    static constexpr size_t kMaxWords = 9;

    uint32_t l3 = 0;
    uint32_t words = 0;
    std::array<uint64_t, kMaxWords> masks{};

    [[nodiscard]] uint64_t word(const std::byte* head, size_t index) const {
        uint64_t word;
        std::memcpy(&word, head + 8 * index, sizeof word);
        return word & masks[index];
    }
};

/// For plain frames with these headers: all bytes up to the ports and the TCP flags count, except
/// lengths, checksums, and packet and byte numbers.
constexpr FlowShape make_shape(bool vlan, bool ipv6, bool tcp) {
    std::array<uint8_t, 8 * FlowShape::kMaxWords> mask{};
    const auto set = [&](uint32_t from, uint32_t bytes, uint8_t value) {
        for (uint32_t i = from; i < from + bytes; i++)
            mask[i] = value;
    };
    const uint32_t l3 = net::kEthernetBytes + (vlan ? net::kVlanBytes : 0);
    const uint32_t l4 = l3 + (ipv6 ? 40 : 20);
    set(0, l4 + 4, 0xff); // with the ports
    if (ipv6) {
        set(l3 + 4, 2, 0); // payload length
    } else {
        set(l3 + 2, 4, 0);  // total length, identification
        set(l3 + 10, 2, 0); // checksum
    }
    if (tcp) set(l4 + 12, 2, 0xff); // length of the header, flags
    const uint32_t end = l4 + (tcp ? 14 : 4);
    FlowShape shape{.l3 = l3, .words = (end + 7) / 8};
    for (size_t i = 0; i < mask.size(); i++)
        shape.masks[i / 8] |= uint64_t{mask[i]} << (8 * (i % 8));
    return shape;
}
static_assert(std::endian::native == std::endian::little, "masks are made for words in memory");

inline constexpr std::array<FlowShape, 8> kFlowShapes = [] {
    std::array<FlowShape, 8> shapes;
    for (size_t i = 0; i < shapes.size(); i++)
        shapes[i] = make_shape((i & 4) != 0, (i & 2) != 0, (i & 1) != 0);
    return shapes;
}();

/// Calls `use(shape)` with the index of the shape that the frame may have, as a constant, and
/// returns the result; an empty one when no shape is possible. is_plain() ensures for a flow's
/// first packet that its headers really are at these offsets: the bytes that determine it are
/// compared.
template <class Use>
[[nodiscard]] auto with_shape(const std::byte* head, uint32_t bytes, Use&& use) {
    using Nothing = decltype(use(std::integral_constant<size_t, 0>()));
    constexpr uint32_t kMinFrame = 60; // what wires deliver at least
    const auto type_at = [&](uint32_t at) { return net::load_be<uint16_t>(head + at); };
    const auto by_proto = [&](uint8_t proto, auto udp) {
        constexpr size_t kUdp = udp, kTcp = udp + 1;
        if (proto == net::kProtoUdp && bytes >= 8 * kFlowShapes[kUdp].words)
            return use(std::integral_constant<size_t, kUdp>());
        if (proto == net::kProtoTcp && bytes >= 8 * kFlowShapes[kTcp].words)
            return use(std::integral_constant<size_t, kTcp>());
        return Nothing();
    };
    const auto by_type = [&](uint16_t type, auto first) {
        constexpr uint32_t kL3 = kFlowShapes[first].l3;
        constexpr size_t kIpv4 = first, kIpv6 = first + 2;
        if (type == net::kEtherIpv4)
            return by_proto(static_cast<uint8_t>(head[kL3 + 9]),
                            std::integral_constant<size_t, kIpv4>());
        if (type == net::kEtherIpv6)
            return by_proto(static_cast<uint8_t>(head[kL3 + 6]),
                            std::integral_constant<size_t, kIpv6>());
        return Nothing();
    };
    if (bytes < kMinFrame) return Nothing();
    const uint16_t type = type_at(net::kEthernetBytes - 2);
    if (type != net::kEtherVlan) return by_type(type, std::integral_constant<size_t, 0>());
    return by_type(type_at(net::kEthernetBytes + 2), std::integral_constant<size_t, 4>());
}

/// Whether the packet's headers are where the shape has them.
[[nodiscard]] inline bool is_plain(const Packet& packet, const FlowShape& shape) {
    const net::Headers& headers = packet.headers();
    const uint32_t ip = headers.ip_version == 4 ? 20 : 40;
    return headers.l3 == shape.l3 && headers.l4 == shape.l3 + ip && headers.length_ok &&
           !headers.fragment &&
           (headers.ip_proto == net::kProtoTcp ||
            !is_tunnel_port(packet.key().outer.dst_port, packet.vxlan_ports()));
}

} // namespace softhca::core
