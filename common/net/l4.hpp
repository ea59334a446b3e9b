// SPDX-License-Identifier: BSD-3-Clause
// What the checksum of a TCP or UDP header covers.
#pragma once

#include "common/net/checksum.hpp"
#include "common/net/parse.hpp"

namespace net {

/// Bytes that the checksum of a UDP header covers, if the packet has `bytes` bytes from that header
/// on; 0 when the lengths contradict each other.
[[nodiscard]] inline uint32_t udp_bytes(const std::byte* udp, uint32_t bytes) {
    const uint32_t length = load_be<uint16_t>(udp + 4);
    return length >= 8 && length <= bytes ? length : 0;
}

/// Bytes of L4 header and payload that the checksum covers; 0 when the lengths contradict each
/// other. Requires headers.l4 != 0; `head` is the start of the frame.
[[nodiscard]] inline uint32_t l4_bytes(const Headers& headers, const std::byte* head) {
    const uint32_t bytes = headers.l3 + headers.ip_bytes - headers.l4;
    return headers.ip_proto == kProtoUdp ? udp_bytes(head + headers.l4, bytes) : bytes;
}

/// The sum over the pseudo header of a packet of `l4_bytes` bytes (at most 65535).
[[nodiscard]] inline ChecksumSum pseudo_header(const Headers& headers, const std::byte* head,
                                               uint32_t l4_bytes) {
    ChecksumSum sum;
    if (headers.ip_version == 4)
        sum.add(head + headers.l3 + 12, 8);
    else
        sum.add(head + headers.l3 + 8, 32);
    sum.add_word(headers.ip_proto);
    sum.add_word(static_cast<uint16_t>(l4_bytes));
    return sum;
}

} // namespace net
