// SPDX-License-Identifier: BSD-3-Clause
// Frames for tests of what entries see.
#pragma once

#include "tests/unit/net/frames.hpp"

#include <algorithm>

namespace testbed {

using frames::Bytes;
using frames::Spec;

template <class Change> Bytes changed(Spec spec, Change change) {
    change(spec);
    return frames::build(spec);
}

/// An IPv4 packet with this protocol and a correct header checksum.
inline Bytes ipv4_with(uint8_t protocol, const Bytes& payload) {
    Spec spec;
    spec.payload.clear();
    Bytes frame = frames::build(spec);
    frame.resize(14 + 20);
    frame.insert(frame.end(), payload.begin(), payload.end());
    frame[23] = protocol;
    frames::put16(frame, 16, static_cast<uint16_t>(frame.size() - 14));
    frames::put16(frame, 24, 0);
    frames::put16(frame, 24, frames::slow_checksum(Bytes(frame.begin() + 14, frame.begin() + 34)));
    return frame;
}
inline Bytes ipv6_with(uint8_t next, const Bytes& payload) {
    constexpr ptrdiff_t kNextAt = 20, kPayloadAt = 54;
    Bytes frame = frames::build(frames::ipv6_spec());
    frame[kNextAt] = next;
    std::copy(payload.begin(), payload.end(), frame.begin() + kPayloadAt);
    return frame;
}
inline Bytes udp_with(uint16_t port, const Bytes& payload) {
    Spec spec;
    spec.dst_port = port;
    spec.payload = payload;
    return frames::build(spec);
}
inline Bytes mpls_with(uint32_t label) {
    Spec spec;
    spec.ip = 0;
    spec.ether_type = 0x8847;
    spec.payload = Bytes(60, 0);
    frames::put32(spec.payload, 0, label);
    return frames::build(spec);
}
inline Bytes flipped(Bytes frame, size_t at, uint8_t bits = 1) {
    frame[at] ^= bits;
    return frame;
}
inline Bytes followed(Bytes first, const Bytes& then) {
    first.insert(first.end(), then.begin(), then.end());
    return first;
}

inline const Spec kV4{}, kV6 = frames::ipv6_spec();
inline Spec tcp_spec() {
    Spec spec;
    spec.proto = frames::kTcp;
    spec.sequence = 0x01020304;
    spec.ack = 0x05060708;
    return spec;
}
inline Spec tagged_spec() {
    Spec spec;
    spec.tags = {{0x88a8, 0x3005}, {0x8100, 0x5006}};
    return spec;
}

} // namespace testbed
