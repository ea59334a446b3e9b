// SPDX-License-Identifier: BSD-3-Clause
#include "tests/unit/net/frames.hpp"

namespace frames {
namespace {

// Not insert(): g++ 12 warns of overflows in it that do not exist.
void append(Bytes& to, std::span<const uint8_t> more) {
    for (const uint8_t byte : more)
        to.push_back(byte);
}

void put(Bytes& to, size_t at, std::span<const uint8_t> bytes) {
    for (const uint8_t byte : bytes)
        to.at(at++) = byte;
}

Bytes l4_packet(const Spec& spec) {
    Bytes l4;
    if (spec.proto == kTcp) {
        l4.resize(20);
        put32(l4, 4, spec.sequence);
        put32(l4, 8, spec.ack);
        l4[12] = static_cast<uint8_t>((5 + spec.tcp_options.size() / 4) << 4);
        l4[13] = spec.tcp_flags;
        put16(l4, 14, spec.window);
        append(l4, spec.tcp_options);
    } else if (spec.proto == kUdp) {
        l4.resize(8);
        put16(l4, 4, static_cast<uint16_t>(8 + spec.payload.size()));
    }
    if (!l4.empty()) {
        put16(l4, 0, spec.src_port);
        put16(l4, 2, spec.dst_port);
    }
    append(l4, spec.payload);
    return l4;
}

Bytes ipv4_header(const Spec& spec, size_t l4_bytes) {
    const size_t header_bytes = 20 + spec.ip_options.size();
    Bytes l3(20);
    l3[0] = static_cast<uint8_t>(0x40 | header_bytes / 4);
    l3[1] = spec.tos;
    put16(l3, 2, static_cast<uint16_t>(header_bytes + l4_bytes));
    put16(l3, 4, spec.ip_id);
    put16(l3, 6, spec.fragment);
    l3[8] = spec.ttl;
    l3[9] = spec.proto;
    put(l3, 12, spec.src_ip);
    put(l3, 16, spec.dst_ip);
    append(l3, spec.ip_options);
    put16(l3, 10, slow_checksum(l3));
    return l3;
}

Bytes ipv6_header(const Spec& spec, size_t l4_bytes) {
    Bytes l3(40);
    size_t extension_bytes = 0;
    for (const auto& [type, header] : spec.extensions)
        extension_bytes += header.size();
    put32(l3, 0, 6u << 28 | uint32_t{spec.tos} << 20 | spec.flow_label);
    put16(l3, 4, static_cast<uint16_t>(extension_bytes + l4_bytes));
    l3[7] = spec.ttl;
    put(l3, 8, spec.src_ip);
    put(l3, 24, spec.dst_ip);
    size_t next_field = 6;
    for (const auto& [type, header] : spec.extensions) {
        l3[next_field] = type;
        next_field = l3.size();
        append(l3, header);
    }
    l3[next_field] = spec.proto;
    return l3;
}

} // namespace

Bytes build(const Spec& spec) {
    Bytes frame;
    append(frame, spec.dst);
    append(frame, spec.src);
    for (const Tag& tag : spec.tags) {
        frame.resize(frame.size() + 4);
        put16(frame, frame.size() - 4, tag.type);
        put16(frame, frame.size() - 2, tag.tci);
    }
    frame.resize(frame.size() + 2);
    put16(frame, frame.size() - 2, spec.ip == 4 ? 0x0800 : spec.ip == 6 ? 0x86dd : spec.ether_type);
    if (spec.ip == 0) {
        append(frame, spec.payload);
        return frame;
    }
    const Bytes l4 = l4_packet(spec);
    Bytes l3 = spec.ip == 4 ? ipv4_header(spec, l4.size()) : ipv6_header(spec, l4.size());
    const size_t l4_at = l3.size();
    append(l3, l4);
    const bool whole = spec.ip == 6 || (spec.fragment & 0x3fff) == 0;
    if (spec.proto == kTcp && whole) put16(l3, l4_at + 16, slow_l4_checksum(l3, l4_at, spec.proto));
    if (spec.proto == kUdp && whole && spec.udp_checksum)
        put16(l3, l4_at + 6, slow_l4_checksum(l3, l4_at, spec.proto));
    append(frame, l3);
    return frame;
}

Spec ipv6_spec() {
    Spec spec;
    spec.ip = 6;
    spec.src_ip = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    spec.dst_ip = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    return spec;
}

Bytes vxlan(uint32_t vni, const Bytes& inner, bool udp_checksum, uint16_t port) {
    Spec outer;
    outer.dst_port = port;
    outer.udp_checksum = udp_checksum;
    outer.payload = {0x08, 0, 0, 0};
    outer.payload.resize(8);
    put32(outer.payload, 4, vni << 8);
    append(outer.payload, inner);
    return build(outer);
}

Bytes pattern(size_t bytes, uint8_t seed) {
    Bytes result(bytes);
    for (size_t i = 0; i < bytes; i++)
        result[i] = static_cast<uint8_t>(seed + i * 7 + i / 251);
    return result;
}

Bytes padded(Bytes frame, size_t bytes) {
    if (frame.size() < bytes) frame.resize(bytes);
    return frame;
}

uint16_t slow_checksum(const Bytes& data) {
    uint32_t sum = 0;
    for (size_t i = 0; i < data.size(); i++) {
        sum += i % 2 ? data[i] : uint32_t{data[i]} << 8;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<uint16_t>(~sum);
}

uint16_t slow_l4_checksum(const Bytes& l3, size_t l4_at, uint8_t proto) {
    const bool v4 = l3[0] >> 4 == 4;
    const auto l4_bytes = static_cast<uint16_t>(l3.size() - l4_at);
    Bytes all =
        v4 ? Bytes(l3.begin() + 12, l3.begin() + 20) : Bytes(l3.begin() + 8, l3.begin() + 40);
    append(all,
           Bytes{0, proto, static_cast<uint8_t>(l4_bytes >> 8), static_cast<uint8_t>(l4_bytes)});
    const size_t at = all.size();
    append(all, std::span(l3).subspan(l4_at));
    put16(all, at + (proto == kTcp ? 16 : 6), 0);
    const uint16_t checksum = slow_checksum(all);
    return checksum == 0 && proto == kUdp ? 0xffff : checksum;
}

void put16(Bytes& bytes, size_t at, uint16_t value) {
    bytes[at] = static_cast<uint8_t>(value >> 8);
    bytes[at + 1] = static_cast<uint8_t>(value);
}
void put32(Bytes& bytes, size_t at, uint32_t value) {
    put16(bytes, at, static_cast<uint16_t>(value >> 16));
    put16(bytes, at + 2, static_cast<uint16_t>(value));
}
uint16_t get16(const Bytes& bytes, size_t at) {
    return static_cast<uint16_t>(bytes[at] << 8 | bytes[at + 1]);
}
uint32_t get32(const Bytes& bytes, size_t at) {
    return uint32_t{get16(bytes, at)} << 16 | get16(bytes, at + 2);
}

} // namespace frames
