// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/checksum.hpp"

#include <array>
#include <bit>

namespace rawqp::verbsrings {
namespace {

/// Null: the packet ends before it.
uint8_t* byte_at(const rte_mbuf& packet, uint32_t offset) {
    const rte_mbuf* segment = &packet;
    for (; segment != nullptr && offset >= segment->data_len; segment = segment->next)
        offset -= segment->data_len;
    return segment != nullptr ? rte_pktmbuf_mtod_offset(segment, uint8_t*, offset) : nullptr;
}

} // namespace

bool has_ipv4_header(const rte_mbuf& packet) {
    const uint32_t length = packet.l3_len;
    return length >= sizeof(rte_ipv4_hdr) && byte_at(packet, packet.l2_len + length - 1) != nullptr;
}

bool set_ipv4_checksum(rte_mbuf& packet) {
    constexpr uint32_t kAt = offsetof(rte_ipv4_hdr, hdr_checksum);
    const uint32_t start = packet.l2_len, length = packet.l3_len;
    if (!has_ipv4_header(packet)) return false;
    uint8_t &high = *byte_at(packet, start + kAt), &low = *byte_at(packet, start + kAt + 1);
    high = low = 0;
    std::array<uint8_t, 1 << RTE_MBUF_L3_LEN_BITS> copy; // of a header in pieces
    const void* const header = rte_pktmbuf_read(&packet, start, length, copy.data());
    if (header == nullptr) return false;
    const std::array<uint8_t, 2> checksum = std::bit_cast<std::array<uint8_t, 2>>(
        static_cast<uint16_t>(~rte_raw_cksum(header, length)));
    high = checksum[0];
    low = checksum[1];
    return true;
}

} // namespace rawqp::verbsrings
