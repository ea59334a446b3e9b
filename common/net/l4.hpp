// SPDX-License-Identifier: BSD-3-Clause
// What the checksum of a TCP or UDP header covers.
#pragma once

#include "common/net/checksum.hpp"
#include "common/net/parse.hpp"

namespace net {

/// Bytes of L4 header and payload that the checksum covers; 0 when the lengths contradict each
/// other. Requires headers.l4 != 0; `head` is the start of the frame.
[[nodiscard]] inline uint32_t l4_bytes(const Headers& headers, const std::byte* head) {
    const uint32_t bytes = headers.l3 + headers.ip_bytes - headers.l4;
    if (headers.ip_proto != kProtoUdp) return bytes;
    const uint32_t udp_bytes = load_be<uint16_t>(head + headers.l4 + 4);
    return udp_bytes >= 8 && udp_bytes <= bytes ? udp_bytes : 0;
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
