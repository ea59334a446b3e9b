// SPDX-License-Identifier: BSD-3-Clause
// Writes the WQE of one packet: SEND, or TSO.
//
// It consists of a control segment, an Ethernet segment and one data segment per mbuf segment, 16
// bytes each: a packet in one mbuf is one WQEBB. Bytes of the packet that are copied into the WQE
// (inlined) start at the end of the Ethernet segment and run on into further segments. The ring may
// wrap anywhere after the first 64 bytes.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/tx_options.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"

namespace rawqp::mlx5rings {

inline constexpr uint32_t kHeadSegments = 2; ///< control and Ethernet
inline constexpr uint32_t kInlineAt =
    mlx5::kSegment + offsetof(mlx5::WqeEthSeg, inline_header); ///< from the start of the WQE

/// Segments that `bytes` of packet take after an inline header (WqeInlineSeg).
constexpr uint32_t inline_segments(uint32_t bytes) {
    return (sizeof(mlx5::WqeInlineSeg) + bytes + mlx5::kSegment - 1) / mlx5::kSegment;
}

inline uint8_t checksum_flags(uint64_t ol_flags) {
    // Of the two-bit L4 request, TCP (1) and UDP (3) share the low bit; SCTP (2) is not offered.
    static_assert((RTE_MBUF_F_TX_TCP_CKSUM & RTE_MBUF_F_TX_UDP_CKSUM) == RTE_MBUF_F_TX_TCP_CKSUM);
    static_assert((RTE_MBUF_F_TX_SCTP_CKSUM & RTE_MBUF_F_TX_TCP_CKSUM) == 0);
    constexpr uint64_t kL4 = RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_TCP_SEG;
    const uint8_t l3 = ol_flags & RTE_MBUF_F_TX_IP_CKSUM ? mlx5::kCsL3 : 0;
    const uint8_t l4 = ol_flags & kL4 ? mlx5::kCsL4 : 0;
    if ((ol_flags & (RTE_MBUF_F_TX_TUNNEL_MASK | RTE_MBUF_F_TX_OUTER_IP_CKSUM)) == 0) [[likely]]
        return l3 | l4;
    static_assert(mlx5::kCsL3 >> 2 == mlx5::kCsL3Inner && mlx5::kCsL4 >> 2 == mlx5::kCsL4Inner);
    const uint8_t outer = ol_flags & RTE_MBUF_F_TX_OUTER_IP_CKSUM ? mlx5::kCsL3 : 0;
    return static_cast<uint8_t>((l3 | l4) >> 2 | outer);
}

inline bool wants_vlan(const rte_mbuf& packet) {
    return (packet.ol_flags & RTE_MBUF_F_TX_VLAN) != 0;
}

/// Requests checksums, and a VLAN tag to be inserted by the device.
inline void write_offloads(mlx5::WqeEthSeg& eth, const rte_mbuf& packet) {
    eth.cs_flags = checksum_flags(packet.ol_flags);
    if (wants_vlan(packet)) {
        eth.inline_size = mlx5::kInsertVlan;
        net::store_be<uint16_t>(eth.inline_header, packet.vlan_tci);
    }
}

/// The packet's metadata, which rules match; 0: it has none.
template <TxOptions O> inline uint32_t metadata_of(const MlxTxRing& ring, const rte_mbuf& packet) {
    if (!O.metadata || (packet.ol_flags & ring.metadata_flag) == 0) return 0;
    uint32_t number;
    memcpy(&number, reinterpret_cast<const uint8_t*>(&packet) + ring.metadata_offset,
           sizeof number);
    return number;
}

/// Writes the control segment of the WQE at the producer index, of `size` 16-byte segments.
inline mlx5::WqeCtrlSeg* write_control(const MlxTxRing& ring, uint8_t* wqe, mlx5::WqeOpcode opcode,
                                       uint32_t size) {
    auto* control = reinterpret_cast<mlx5::WqeCtrlSeg*>(wqe);
    *control = {};
    // Both words in one store: the doorbell will load them as one, and after two stores the CPU
    // would stall that load until both have left its store buffer.
    static_assert(offsetof(mlx5::WqeCtrlSeg, qpn_ds) == 4);
    const uint32_t first = uint32_t{ring.producer} << 8 | static_cast<uint32_t>(opcode);
    net::store_be(control, uint64_t{first} << 32 | ring.sqn_shifted | size);
    return control;
}

/// How much of a packet goes into its WQE.
struct Inlined {
    uint32_t bytes = 0;      ///< from the start of the packet
    uint32_t tag_bytes = 0;  ///< of VLAN tags that software inserts after the addresses
    bool segmented = false;  ///< TSO
    bool impossible = false; ///< the packet is not what it is said to be

    /// Size of the control and Ethernet segments including all that, in segments.
    [[nodiscard]] uint32_t head_segments() const {
        const uint32_t all = bytes + tag_bytes;
        constexpr uint32_t kInEthSegment = sizeof(mlx5::WqeEthSeg::inline_header);
        return kHeadSegments + (all > kInEthSegment ? (all - kInEthSegment + 15) / 16 : 0);
    }
};

/// The device takes either inlined bytes or a tag to insert: where bytes are inlined, and for two
/// tags, software inserts the tags.
template <TxOptions O> inline Inlined inlined(const MlxTxRing& ring, const rte_mbuf& packet) {
    const uint32_t length = O.multi_segment ? packet.pkt_len : packet.data_len;
    Inlined result;
    if (O.long_headers && (packet.ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) {
        result.segmented = true;
        result.bytes = tso_header_bytes(packet);
        result.impossible = result.bytes < RTE_ETHER_HDR_LEN || result.bytes >= length ||
                            result.bytes > kMaxTsoHeader || packet.tso_segsz == 0;
    } else if (O.inlining == Inlining::packet && length <= ring.inline_bytes &&
               (packet.ol_flags & ring.no_inline_flag) == 0) {
        result.bytes = length;
    } else if (O.inlining != Inlining::none) {
        result.bytes = RTE_MIN(uint32_t{ring.min_inline}, length);
    }
    if constexpr (O.offloads) {
        const bool two = O.long_headers && (packet.ol_flags & RTE_MBUF_F_TX_QINQ) != 0;
        if (two || (result.bytes != 0 && wants_vlan(packet))) {
            result.tag_bytes = two ? 2 * RTE_VLAN_HLEN : RTE_VLAN_HLEN;
            if (result.bytes <= kInlineHeader) result.bytes = RTE_ETHER_HDR_LEN;
        }
    }
    return result;
}

/// Writes bytes one after another into the WQE at the producer index.
class WqeBytes {
  public:
    explicit WqeBytes(const MlxTxRing& ring)
        : ring_(ring.sq), size_((ring.wqebb_mask + 1) * mlx5::kWqebb),
          at_((ring.producer & ring.wqebb_mask) * mlx5::kWqebb + kInlineAt) {}

    void put(const void* from, uint32_t bytes) {
        const uint32_t part = RTE_MIN(bytes, size_ - at_);
        memcpy(ring_ + at_, from, part);
        memcpy(ring_, static_cast<const uint8_t*>(from) + part, bytes - part);
        at_ += bytes;
        if (at_ >= size_) at_ -= size_;
    }
    /// Puts `bytes` of the packet from `offset` on, or as many as there are.
    void put(const rte_mbuf& packet, uint32_t offset, uint32_t bytes) {
        const rte_mbuf* segment = &packet;
        for (; segment != nullptr && offset >= segment->data_len; segment = segment->next)
            offset -= segment->data_len;
        for (; segment != nullptr && bytes != 0; segment = segment->next, offset = 0) {
            const uint32_t part = RTE_MIN(bytes, segment->data_len - offset);
            put(rte_pktmbuf_mtod_offset(segment, const uint8_t*, offset), part);
            bytes -= part;
        }
    }
    void put_tag(uint16_t type, uint16_t tci) {
        uint8_t tag[RTE_VLAN_HLEN];
        net::store_be<uint16_t>(tag, type);
        net::store_be<uint16_t>(tag + 2, tci);
        put(tag, sizeof tag);
    }

  private:
    uint8_t* ring_;
    uint32_t size_;
    uint32_t at_;
};

inline void write_inlined(const MlxTxRing& ring, const rte_mbuf& packet, const Inlined& what) {
    constexpr uint32_t kMacs = 2 * RTE_ETHER_ADDR_LEN;
    WqeBytes wqe(ring);
    if (what.tag_bytes == 0) {
        wqe.put(packet, 0, what.bytes);
        return;
    }
    wqe.put(packet, 0, kMacs);
    if (what.tag_bytes > RTE_VLAN_HLEN) wqe.put_tag(RTE_ETHER_TYPE_QINQ, packet.vlan_tci_outer);
    wqe.put_tag(RTE_ETHER_TYPE_VLAN, packet.vlan_tci);
    wqe.put(packet, kMacs, what.bytes - kMacs);
}

template <TxOptions O>
inline void write_eth(const MlxTxRing& ring, uint8_t* wqe, const rte_mbuf& packet,
                      const Inlined& what) {
    auto& eth = *reinterpret_cast<mlx5::WqeEthSeg*>(wqe + mlx5::kSegment);
    eth = {};
    if constexpr (O.metadata) eth.metadata = metadata_of<O>(ring, packet);
    if (what.bytes == 0) {
        if constexpr (O.offloads) write_offloads(eth, packet);
        return;
    }
    if constexpr (O.offloads) eth.cs_flags = checksum_flags(packet.ol_flags);
    if (what.segmented) eth.mss = packet.tso_segsz;
    eth.inline_size = static_cast<uint16_t>(what.bytes + what.tag_bytes);
    write_inlined(ring, packet, what);
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

/// The `index`th 16-byte segment of the WQE at WQEBB `wqebb`; the ring may wrap in between.
inline mlx5::WqeDataSeg& wqe_segment(const MlxTxRing& ring, uint16_t wqebb, uint32_t index) {
    constexpr uint32_t kPerWqebb = mlx5::kWqebb / mlx5::kSegment;
    uint8_t* block = ring.wqebb(static_cast<uint16_t>(wqebb + index / kPerWqebb));
    return *reinterpret_cast<mlx5::WqeDataSeg*>(block + (index % kPerWqebb) * mlx5::kSegment);
}

/// Writes data segments for the packet without its first `skip` bytes, from WQE segment `at` on.
/// Returns the size of the WQE in segments, or 0 when some memory has no lkey.
template <TxOptions O>
inline uint32_t write_payload(MlxTxRing& ring, const rte_mbuf& packet, uint32_t at, uint32_t skip) {
    if constexpr (!O.multi_segment) {
        if (packet.data_len == skip) return at;
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

/// Writes the WQE of one packet at the producer index, which has room for it. Null: it cannot be
/// sent.
template <TxOptions O>
inline mlx5::WqeCtrlSeg* write_wqe(MlxTxRing& ring, const rte_mbuf& packet, const Inlined& what) {
    if (!sendable(packet, O.multi_segment ? ring.max_segments : 1) || what.impossible) [[unlikely]]
        return nullptr;
    uint8_t* wqe = ring.wqebb(ring.producer);
    write_eth<O>(ring, wqe, packet, what);
    const uint32_t size = write_payload<O>(ring, packet, what.head_segments(), what.bytes);
    if (size == 0) [[unlikely]]
        return nullptr;
    const auto opcode = what.segmented ? mlx5::WqeOpcode::tso : mlx5::WqeOpcode::send;
    mlx5::WqeCtrlSeg* control = write_control(ring, wqe, opcode, size);
    ring.producer = static_cast<uint16_t>(ring.producer +
                                          (O.multi_segment || O.long_wqes() ? (size + 3) / 4 : 1));
    return control;
}

} // namespace rawqp::mlx5rings
