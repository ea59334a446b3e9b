// SPDX-License-Identifier: BSD-3-Clause
// The fields of an IP header that follow from the rest of the packet: its length and, in IPv4, the
// checksum of the header.
#pragma once

#include "common/net/checksum.hpp"
#include "common/net/parse.hpp"

namespace net {

/// The packet ends `end` bytes after the start of the frame. Leaves the checksum as it is.
inline void write_ip_length(std::byte* frame, const Headers& headers, uint32_t end) {
    constexpr uint32_t kIpv4Length = 2, kIpv6Length = 4, kIpv6Bytes = 40;
    std::byte* const l3 = frame + headers.l3;
    const uint32_t bytes = end - headers.l3;
    if (headers.ip_version == 4)
        store_be(l3 + kIpv4Length, static_cast<uint16_t>(bytes));
    else
        store_be(l3 + kIpv6Length, static_cast<uint16_t>(bytes - kIpv6Bytes));
}

/// IPv6 has none.
inline void write_ip_checksum(std::byte* frame, const Headers& headers) {
    constexpr uint32_t kIpv4Checksum = 10;
    if (headers.ip_version != 4) return;
    std::byte* const l3 = frame + headers.l3;
    store_be<uint16_t>(l3 + kIpv4Checksum, 0);
    store_be(l3 + kIpv4Checksum, checksum(l3, headers.ipv4_ihl * 4u));
}

} // namespace net
