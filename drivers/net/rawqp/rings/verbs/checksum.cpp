// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/checksum.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace rawqp::verbsrings {
namespace {

constexpr uint32_t kAt = offsetof(rte_ipv4_hdr, hdr_checksum); ///< in the header
using Checksum = std::array<uint8_t, sizeof(rte_ipv4_hdr::hdr_checksum)>;

/// A byte of a packet, and the mbuf that it is in; null: the packet ends before it.
struct Byte {
    const rte_mbuf* segment;
    uint8_t* place;
};

Byte byte_at(const rte_mbuf& packet, uint32_t offset) {
    const rte_mbuf* segment = &packet;
    for (; segment != nullptr && offset >= segment->data_len; segment = segment->next)
        offset -= segment->data_len;
    if (segment == nullptr) return {};
    return {segment, rte_pktmbuf_mtod_offset(segment, uint8_t*, offset)};
}

/// What the header's checksum is to be; the present one does not matter.
std::optional<Checksum> ipv4_checksum(const rte_mbuf& packet) {
    if (!has_ipv4_header(packet)) return std::nullopt;
    std::array<uint8_t, 1 << RTE_MBUF_L3_LEN_BITS> header;
    const void* const in_packet =
        rte_pktmbuf_read(&packet, packet.l2_len, packet.l3_len, header.data());
    if (in_packet == nullptr) return std::nullopt;
    if (in_packet != header.data()) memcpy(header.data(), in_packet, packet.l3_len);
    header[kAt] = header[kAt + 1] = 0;
    return std::bit_cast<Checksum>(
        static_cast<uint16_t>(~rte_raw_cksum(header.data(), packet.l3_len)));
}

/// Whether this mbuf alone holds its data.
bool holds_alone(const rte_mbuf& segment) {
    if (rte_mbuf_refcnt_read(&segment) != 1 || RTE_MBUF_CLONED(&segment)) return false;
    return !RTE_MBUF_HAS_EXTBUF(&segment) || rte_mbuf_ext_refcnt_read(segment.shinfo) == 1;
}

/// A pool of mbufs with data that the packet's data, or its mbufs, come from. Null: there is none,
/// since pools for clones need no room for data.
rte_mempool* pool_with_room(rte_mbuf& packet) {
    for (rte_mbuf* segment = &packet; segment != nullptr; segment = segment->next) {
        rte_mempool* const pool =
            RTE_MBUF_CLONED(segment) ? rte_mbuf_from_indirect(segment)->pool : segment->pool;
        if (rte_pktmbuf_data_room_size(pool) > RTE_PKTMBUF_HEADROOM) return pool;
    }
    return nullptr;
}

rte_mbuf* copy_of(rte_mbuf& packet) {
    rte_mempool* const pool = pool_with_room(packet);
    if (pool == nullptr) return nullptr;
    rte_mbuf* const copy = rte_pktmbuf_copy(&packet, pool, 0, UINT32_MAX);
    // DPDK takes the first mbuf of a copy for a direct one, whatever the pool has.
    if (copy != nullptr && RTE_MBUF_HAS_PINNED_EXTBUF(copy)) copy->ol_flags |= RTE_MBUF_F_EXTERNAL;
    return copy;
}

} // namespace

bool has_ipv4_header(const rte_mbuf& packet) {
    const uint32_t length = packet.l3_len;
    return length >= sizeof(rte_ipv4_hdr) &&
           byte_at(packet, packet.l2_len + length - 1).place != nullptr;
}

rte_mbuf* with_ipv4_checksum(rte_mbuf& packet) {
    const std::optional<Checksum> wanted = ipv4_checksum(packet);
    if (!wanted) return nullptr;
    const auto [high, low] = *wanted;
    const uint32_t at = packet.l2_len + kAt;
    const auto [first, first_place] = byte_at(packet, at);
    const auto [second, second_place] = byte_at(packet, at + 1);
    if (*first_place == high && *second_place == low) return &packet;
    if (holds_alone(*first) && holds_alone(*second)) [[likely]] {
        *first_place = high;
        *second_place = low;
        return &packet;
    }
    rte_mbuf* const copy = copy_of(packet);
    if (copy == nullptr) return nullptr;
    *byte_at(*copy, at).place = high;
    *byte_at(*copy, at + 1).place = low;
    return copy;
}

} // namespace rawqp::verbsrings
