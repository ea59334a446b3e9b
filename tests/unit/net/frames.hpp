// SPDX-License-Identifier: BSD-3-Clause
// Builds frames for tests, byte by byte, independently of the code under test.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace frames {

using Bytes = std::vector<uint8_t>;
using Mac = std::array<uint8_t, 6>;

inline constexpr Mac kOurMac{0x02, 0x15, 0xb3, 0, 0, 1};
inline constexpr Mac kPeerMac{0x02, 0x15, 0xb3, 0, 0, 2};
inline constexpr uint8_t kTcp = 6, kUdp = 17;
inline constexpr uint8_t kFin = 0x01, kSyn = 0x02, kPsh = 0x08, kAck = 0x10, kCwr = 0x80;

struct Tag {
    uint16_t type;
    uint16_t tci;
};

/// A frame to build; every field has a sensible default. Checksums and lengths are correct unless
/// set otherwise.
struct Spec {
    Mac dst = kOurMac;
    Mac src = kPeerMac;
    std::vector<Tag> tags{};
    int ip = 4;                    ///< 4, 6 or 0: no L3, `ether_type` and payload only
    uint16_t ether_type = 0x88b5;  ///< with ip = 0
    Bytes src_ip = {192, 0, 2, 1}; ///< 4 or 16 bytes
    Bytes dst_ip = {192, 0, 2, 2};
    uint8_t tos = 0;
    uint8_t ttl = 64;
    uint16_t ip_id = 7;
    uint16_t fragment = 0; ///< IPv4: flags and offset field
    Bytes ip_options{};    ///< IPv4: a multiple of four bytes
    std::vector<std::pair<uint8_t, Bytes>>
        extensions{}; ///< IPv6: type and whole header (next filled in)
    uint32_t flow_label = 0;
    uint8_t proto = kUdp;
    uint16_t src_port = 1000;
    uint16_t dst_port = 2000;
    uint32_t sequence = 1;
    uint32_t ack = 0;
    uint16_t window = 0xffff;
    uint8_t tcp_flags = kAck;
    Bytes tcp_options{}; ///< a multiple of four bytes
    Bytes payload = Bytes(32, 0xa5);
    bool udp_checksum = true; ///< false: zero
};

[[nodiscard]] Bytes build(const Spec& spec);
[[nodiscard]] Spec ipv6_spec();
/// A VXLAN packet (outer UDP/IPv4) around a whole frame.
[[nodiscard]] Bytes vxlan(uint32_t vni, const Bytes& inner, bool udp_checksum = false,
                          uint16_t port = 4789);
/// Bytes that differ between positions.
[[nodiscard]] Bytes pattern(size_t bytes, uint8_t seed = 0);
[[nodiscard]] Bytes padded(Bytes frame, size_t bytes = 60);

/// RFC 1071, one 16-bit word at a time.
[[nodiscard]] uint16_t slow_checksum(const Bytes& data);
/// What the TCP or UDP checksum field of the IP packet `l3` (without trailing padding) should hold.
[[nodiscard]] uint16_t slow_l4_checksum(const Bytes& l3, size_t l4_at, uint8_t proto);
void put16(Bytes& bytes, size_t at, uint16_t value);
void put32(Bytes& bytes, size_t at, uint32_t value);
[[nodiscard]] uint16_t get16(const Bytes& bytes, size_t at);
[[nodiscard]] uint32_t get32(const Bytes& bytes, size_t at);

inline std::span<const std::byte> view(const Bytes& bytes) {
    return std::as_bytes(std::span(bytes));
}

} // namespace frames
