// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/flow_cache.hpp"

#include "common/net/endian.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace softhca::core {
namespace {

constexpr uint32_t kMinFrame = 60; // what wires bring at least

/// Of plain frames with these headers: all bytes up to the ports and the flags of TCP count, but
/// for lengths, checksums, numbers of packets and bytes.
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

constexpr std::array<FlowShape, 8> kShapes = [] {
    std::array<FlowShape, 8> shapes;
    for (size_t i = 0; i < shapes.size(); i++)
        shapes[i] = make_shape((i & 4) != 0, (i & 2) != 0, (i & 1) != 0);
    return shapes;
}();

/// The shape that the frame may have, or null. That its headers do lie so is what learn() makes
/// sure of for a flow's first packet: the bytes that tell are compared.
const FlowShape* shape_of(const std::byte* head, uint32_t bytes) {
    if (bytes < kMinFrame) return nullptr;
    uint32_t l3 = net::kEthernetBytes;
    uint16_t type = net::load_be<uint16_t>(head + l3 - 2);
    const bool vlan = type == net::kEtherVlan;
    if (vlan) {
        l3 += net::kVlanBytes;
        type = net::load_be<uint16_t>(head + l3 - 2);
    }
    const bool ipv6 = type == net::kEtherIpv6;
    if (!ipv6 && type != net::kEtherIpv4) return nullptr;
    const auto proto = static_cast<uint8_t>(head[l3 + (ipv6 ? 6 : 9)]);
    const bool tcp = proto == net::kProtoTcp;
    if (!tcp && proto != net::kProtoUdp) return nullptr;
    const FlowShape& shape = kShapes[(vlan ? 4u : 0u) | (ipv6 ? 2u : 0u) | (tcp ? 1u : 0u)];
    return bytes >= 8 * shape.words ? &shape : nullptr;
}

uint64_t word_at(const FlowShape& shape, const std::byte* head, size_t index) {
    uint64_t word;
    std::memcpy(&word, head + 8 * index, sizeof word);
    return word & shape.masks[index];
}

/// Calls `use(words)` with the number of a shape's words as a constant.
template <class Use> auto with_words(const FlowShape& shape, Use&& use) {
    switch (shape.words) {
    case 5: return use(std::integral_constant<size_t, 5>());
    case 6: return use(std::integral_constant<size_t, 6>());
    case 7: return use(std::integral_constant<size_t, 7>());
    case 8: return use(std::integral_constant<size_t, 8>());
    default: return use(std::integral_constant<size_t, FlowShape::kMaxWords>());
    }
}
static_assert(std::ranges::all_of(kShapes, [](const FlowShape& shape) {
    return shape.words >= 5 && shape.words <= FlowShape::kMaxWords;
}));

/// The products do not wait for each other; the high bits of each depend on all of its word.
uint64_t hash_of(const FlowShape& shape, const std::byte* head) {
    return with_words(shape, [&](auto words) {
        uint64_t sum = 0, factor = 0x9e3779b97f4a7c15u;
        for (size_t i = 0; i < words; i++, factor += 0xc6b2733a2f3a9c6cu)
            sum += word_at(shape, head, i) * factor;
        return sum >> 40;
    });
}

bool equal(const FlowShape& shape, const std::byte* head,
           const std::array<uint64_t, FlowShape::kMaxWords>& known) {
    return with_words(shape, [&](auto words) {
        uint64_t difference = 0;
        for (size_t i = 0; i < words; i++)
            difference |= word_at(shape, head, i) ^ known[i];
        return difference == 0;
    });
}

[[nodiscard]] bool is_plain(const Packet& packet, uint32_t l3) {
    const net::Headers& headers = packet.headers();
    const uint32_t ip = headers.ip_version == 4 ? 20 : 40;
    return headers.l3 == l3 && headers.l4 == l3 + ip && headers.length_ok &&
           (headers.ip_proto == net::kProtoTcp || !is_tunnel_port(packet.key().outer.dst_port));
}

} // namespace

// Words are compared as they are loaded: read back by wide loads, stored ones would stall. That the
// shape is the same needs no look: each shape compares the bytes that tell it.
FlowCache::Found FlowCache::find(const std::byte* head, uint32_t bytes) const {
    const FlowShape* const shape = shape_of(head, bytes);
    if (!shape || places_.empty()) return {};
    const Place& place = places_[hash_of(*shape, head) % kPlaces];
    if (place.epoch != epoch_ || !equal(*shape, head, place.words)) return {};

    const std::byte* const ip = head + shape->l3;
    const uint32_t ip_bytes = place.flow.headers.ip_version == 4
                                  ? net::load_be<uint16_t>(ip + 2)
                                  : 40u + net::load_be<uint16_t>(ip + 4);
    const uint32_t end = shape->l3 + ip_bytes;
    if (end > bytes || end < place.flow.headers.payload) return {};
    return {&place.flow, ip_bytes};
}

void FlowCache::learn(const Packet& packet, const KnownFlow& flow) {
    const FlowShape* const shape = shape_of(packet.head(), packet.bytes());
    if (!shape || !is_plain(packet, shape->l3)) return;
    if (places_.empty()) places_.resize(kPlaces);
    Place& place = places_[hash_of(*shape, packet.head()) % kPlaces];
    place = {.epoch = epoch_, .flow = flow};
    for (uint32_t i = 0; i < shape->words; i++)
        place.words[i] = word_at(*shape, packet.head(), i);
}

} // namespace softhca::core
