// SPDX-License-Identifier: BSD-3-Clause
// Writes the WQE of one packet (SEND).
//
// A WQE is a control, an Ethernet and one data segment per mbuf segment, 16 bytes each: a packet in
// one mbuf is one WQEBB. Inlining the header adds one segment and still fits.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/tx_options.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"

namespace rawqp::mlx5rings {

// From the start of the WQE; inlined bytes run on into the next segment.
constexpr size_t kInlineSizeOffset = mlx5::kSegment + offsetof(mlx5::WqeEthSeg, inline_size);
constexpr size_t kInlineHeaderOffset = mlx5::kSegment + offsetof(mlx5::WqeEthSeg, inline_header);

inline uint8_t checksum_flags(uint64_t ol_flags) {
    // Of the two-bit L4 request, TCP (1) and UDP (3) share the low bit; SCTP (2) is not offered.
    static_assert((RTE_MBUF_F_TX_TCP_CKSUM & RTE_MBUF_F_TX_UDP_CKSUM) == RTE_MBUF_F_TX_TCP_CKSUM);
    static_assert((RTE_MBUF_F_TX_SCTP_CKSUM & RTE_MBUF_F_TX_TCP_CKSUM) == 0);
    const uint8_t l3 = ol_flags & RTE_MBUF_F_TX_IP_CKSUM ? mlx5::kCsL3 : 0;
    const uint8_t l4 = ol_flags & RTE_MBUF_F_TX_TCP_CKSUM ? mlx5::kCsL4 : 0;
    return l3 | l4;
}

inline bool wants_vlan(const rte_mbuf& packet) {
    return (packet.ol_flags & RTE_MBUF_F_TX_VLAN) != 0;
}

/// Copies the start of the packet into the WQE, with a VLAN tag put in by software when asked for:
/// these devices do not take both. Returns how many bytes of the packet that was, 0 when the packet
/// ends before them.
template <TxOptions O> inline uint32_t inline_header(uint8_t* wqe, const rte_mbuf& packet) {
    constexpr uint32_t kMacs = 2 * RTE_ETHER_ADDR_LEN;
    bool tag = false;
    if constexpr (O.offloads) tag = wants_vlan(packet);
    const uint32_t bytes = tag ? RTE_ETHER_HDR_LEN : RTE_MIN(kInlineHeader, packet.pkt_len);
    uint8_t copy[kInlineHeader];
    const auto* header = static_cast<const uint8_t*>(rte_pktmbuf_read(&packet, 0, bytes, copy));
    if (header == nullptr) return 0;
    net::store_be<uint16_t>(wqe + kInlineSizeOffset, tag ? kInlineHeader : bytes);
    uint8_t* to = wqe + kInlineHeaderOffset;
    if (tag) {
        memcpy(to, header, kMacs);
        net::store_be<uint16_t>(to + kMacs, RTE_ETHER_TYPE_VLAN);
        net::store_be<uint16_t>(to + kMacs + 2, packet.vlan_tci);
        memcpy(to + kMacs + RTE_VLAN_HLEN, header + kMacs, RTE_ETHER_TYPE_LEN);
    } else {
        memcpy(to, header, bytes);
    }
    return bytes;
}

/// Checksums, and a VLAN tag put in by the device.
inline void write_offloads(mlx5::WqeEthSeg& eth, const rte_mbuf& packet) {
    eth.cs_flags = checksum_flags(packet.ol_flags);
    if (wants_vlan(packet)) {
        eth.inline_size = mlx5::kInsertVlan;
        net::store_be<uint16_t>(eth.inline_header, packet.vlan_tci);
    }
}

/// Returns how many bytes of the packet the WQE now holds.
template <TxOptions O> inline uint32_t write_eth(uint8_t* wqe, const rte_mbuf& packet) {
    auto& eth = *reinterpret_cast<mlx5::WqeEthSeg*>(wqe + mlx5::kSegment);
    eth = {};
    if constexpr (O.inline_header) {
        if constexpr (O.offloads) eth.cs_flags = checksum_flags(packet.ol_flags);
        return inline_header<O>(wqe, packet);
    }
    if constexpr (O.offloads) write_offloads(eth, packet);
    return 0;
}

/// Writes the control segment of the WQE at the producer index, of `size` 16-byte segments.
inline mlx5::WqeCtrlSeg* write_control(const MlxTxRing& ring, uint8_t* wqe, mlx5::WqeOpcode opcode,
                                       uint32_t size) {
    auto* control = reinterpret_cast<mlx5::WqeCtrlSeg*>(wqe);
    *control = {};
    control->opmod_idx_opcode = uint32_t{ring.producer} << 8 | static_cast<uint32_t>(opcode);
    control->qpn_ds = ring.sqn_shifted | size;
    return control;
}

/// False: the memory has no lkey.
inline bool write_data(MlxTxRing& ring, mlx5::WqeDataSeg& data, const rte_mbuf& segment,
                       uint32_t skip) {
    const auto address = rte_pktmbuf_mtod_offset(&segment, uintptr_t, skip);
    const MrEntry* mr = ring.mrs.find(address);
    if (mr == nullptr) [[unlikely]]
        return false;
    data.byte_count = segment.data_len - skip;
    data.lkey.raw = mr->lkey_be;
    data.addr = address;
    return true;
}

/// The `index`th 16-byte segment of the WQE at WQEBB `wqebb`; the ring may wrap between.
inline mlx5::WqeDataSeg& wqe_segment(const MlxTxRing& ring, uint16_t wqebb, uint32_t index) {
    constexpr uint32_t kPerWqebb = mlx5::kWqebb / mlx5::kSegment;
    uint8_t* block = ring.wqebb(static_cast<uint16_t>(wqebb + index / kPerWqebb));
    return *reinterpret_cast<mlx5::WqeDataSeg*>(block + (index % kPerWqebb) * mlx5::kSegment);
}

/// Writes data segments for the packet without its first `skip` bytes, from WQE segment `at` on.
/// Returns the size of the WQE in segments, 0 when some memory has no lkey.
template <TxOptions O>
inline uint32_t write_payload(MlxTxRing& ring, const rte_mbuf& packet, uint32_t at, uint32_t skip) {
    if constexpr (!O.multi_segment) {
        if (O.inline_header && packet.data_len == skip) return at;
        return write_data(ring, wqe_segment(ring, ring.producer, at), packet, skip) ? at + 1 : 0;
    }
    for (const rte_mbuf* segment = &packet; segment != nullptr; segment = segment->next) {
        if (segment->data_len <= skip) { // wholly inlined, or empty
            skip -= segment->data_len;
            continue;
        }
        if (!write_data(ring, wqe_segment(ring, ring.producer, at), *segment, skip)) return 0;
        skip = 0;
        ++at;
    }
    return at;
}

/// Writes the WQE of one packet at the producer index. Null: it cannot be sent.
template <TxOptions O> inline mlx5::WqeCtrlSeg* write_wqe(MlxTxRing& ring, const rte_mbuf& packet) {
    if (!sendable(packet, O.multi_segment ? ring.max_segments : 1)) [[unlikely]]
        return nullptr;
    uint8_t* wqe = ring.wqebb(ring.producer);
    const uint32_t inlined = write_eth<O>(wqe, packet);
    if (O.inline_header && inlined == 0) [[unlikely]]
        return nullptr;
    constexpr uint32_t kHeadSegments = O.inline_header ? 3 : 2;
    const uint32_t size = write_payload<O>(ring, packet, kHeadSegments, inlined);
    if (size == 0 || (!O.inline_header && size == kHeadSegments)) [[unlikely]]
        return nullptr;
    mlx5::WqeCtrlSeg* control = write_control(ring, wqe, mlx5::WqeOpcode::send, size);
    ring.producer = static_cast<uint16_t>(ring.producer + (O.multi_segment ? (size + 3) / 4 : 1));
    return control;
}

} // namespace rawqp::mlx5rings
