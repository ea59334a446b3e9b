// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/ptp.hpp"

#include <span>

namespace rawqp {
namespace {

constexpr uint16_t kEventPort = 319, kGeneralPort = 320;

/// By the low half of the message's first byte: those below 8 are events.
PtpKind kind_of_message(const rte_mbuf& packet, uint32_t offset) {
    constexpr uint8_t kFirstGeneral = 8;
    uint8_t copy = 0;
    const auto* const first =
        static_cast<const uint8_t*>(rte_pktmbuf_read(&packet, offset, sizeof copy, &copy));
    if (first == nullptr) return PtpKind::none;
    return (*first & 0xf) < kFirstGeneral ? PtpKind::event : PtpKind::general;
}

} // namespace

PtpKind ptp_kind(const rte_mbuf& packet) {
    rte_net_hdr_lens lengths{};
    const uint32_t type = rte_net_get_ptype(
        &packet, &lengths, RTE_PTYPE_L2_MASK | RTE_PTYPE_L3_MASK | RTE_PTYPE_L4_MASK);
    if ((type & RTE_PTYPE_L3_MASK) == 0) {
        if (lengths.l2_len == 0) return PtpKind::none; // too short
        // The L2 header ends with Ethernet's type field.
        rte_be16_t copy = 0;
        const auto* const ether_type = static_cast<const rte_be16_t*>(
            rte_pktmbuf_read(&packet, lengths.l2_len - sizeof copy, sizeof copy, &copy));
        if (ether_type == nullptr || *ether_type != RTE_BE16(RTE_ETHER_TYPE_1588))
            return PtpKind::none;
        return kind_of_message(packet, lengths.l2_len);
    }
    if ((type & RTE_PTYPE_L4_MASK) != RTE_PTYPE_L4_UDP) return PtpKind::none;
    const uint32_t udp_offset = lengths.l2_len + uint32_t{lengths.l3_len};
    rte_udp_hdr copy{};
    const auto* const udp =
        static_cast<const rte_udp_hdr*>(rte_pktmbuf_read(&packet, udp_offset, sizeof copy, &copy));
    if (udp == nullptr) return PtpKind::none;
    const uint16_t port = rte_be_to_cpu_16(udp->dst_port);
    if (port != kEventPort && port != kGeneralPort) return PtpKind::none;
    return kind_of_message(packet, udp_offset + sizeof copy);
}

void note_ptp(uint16_t queue_id, int offset, PtpStamps& stamps, rte_mbuf** packets,
              uint16_t count) {
    for (rte_mbuf* const mbuf : std::span(packets, count)) {
        const PtpKind kind = ptp_kind(*mbuf);
        if (kind == PtpKind::none) continue;
        mbuf->ol_flags |= RTE_MBUF_F_RX_IEEE1588_PTP;
        if (kind != PtpKind::event) continue;
        const uint16_t slot = stamps.next;
        stamps.next = static_cast<uint16_t>((slot + 1) % PtpStamps::kKept);
        __atomic_store_n(&stamps.stamps[slot],
                         *RTE_MBUF_DYNFIELD(mbuf, offset, const rte_mbuf_timestamp_t*),
                         __ATOMIC_RELAXED);
        mbuf->ol_flags |= RTE_MBUF_F_RX_IEEE1588_TMST;
        mbuf->timesync = static_cast<uint16_t>(queue_id * PtpStamps::kKept + slot);
    }
}

} // namespace rawqp
