// SPDX-License-Identifier: BSD-3-Clause
// The send burst on mapped rings, scalar. One template; the options are chosen once per port.
//
// A WQE is a control, an Ethernet and one data segment per mbuf segment, 16 bytes each: a packet in
// one mbuf is one WQEBB. Inlining the header adds one segment and still fits.
#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/mlx5/device.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

#include <utility>

namespace rawqp::mlx5rings {
namespace {

struct TxOptions {
    bool multi_segment; ///< packets in several mbufs
    bool offloads;      ///< checksums or VLAN tags may be asked for
    bool inline_header; ///< the device wants the Ethernet header in the WQE
};

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

template <TxOptions O> inline uint32_t write_eth(uint8_t* wqe, const rte_mbuf& packet) {
    auto& eth = *reinterpret_cast<mlx5::WqeEthSeg*>(wqe + mlx5::kSegment);
    eth = {};
    if constexpr (O.offloads) eth.cs_flags = checksum_flags(packet.ol_flags);
    if constexpr (O.inline_header) return inline_header<O>(wqe, packet);
    if constexpr (O.offloads) {
        if (wants_vlan(packet)) {
            eth.inline_size = mlx5::kInsertVlan;
            net::store_be<uint16_t>(eth.inline_header, packet.vlan_tci);
        }
    }
    return 0;
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

/// Notes the packet's segments as in flight.
template <TxOptions O> inline void keep(MlxTxRing& ring, rte_mbuf* packet) {
    uint16_t head = ring.mbufs.head();
    if constexpr (O.multi_segment) {
        for (rte_mbuf* segment = packet; segment != nullptr; segment = segment->next)
            ring.mbufs.slot(head++) = segment;
    } else {
        ring.mbufs.slot(head++) = packet;
    }
    ring.mbufs.set_head(head);
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
    auto* control = reinterpret_cast<mlx5::WqeCtrlSeg*>(wqe);
    *control = {};
    control->opmod_idx_opcode =
        uint32_t{ring.producer} << 8 | static_cast<uint32_t>(mlx5::WqeOpcode::send);
    control->qpn_ds = ring.sqn_shifted | size;
    ring.producer = static_cast<uint16_t>(ring.producer + (O.multi_segment ? (size + 3) / 4 : 1));
    return control;
}

/// After the last WQE of a burst: asks for its completion and rings the doorbell.
inline void finish_burst(MlxTxRing& ring, mlx5::WqeCtrlSeg* last) {
    last->fm_ce_se = mlx5::kCqUpdate;
    ring.mark(ring.marks_head++) = {.segment = ring.mbufs.head(), .wqebb = ring.producer};
    wqes_before_record();
    store_record(*ring.doorbell, ring.producer);
    ring.uar.ring(last);
}

template <TxOptions O> uint16_t send(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<MlxTxRing*>(queue);
    if (!reap(ring)) [[unlikely]]
        return 0;
    ring.mrs.sync();
    mlx5::WqeCtrlSeg* last = nullptr;
    uint64_t bytes = 0;
    uint16_t posted = 0;
    uint16_t taken = 0;
    for (; taken < count; ++taken) {
        rte_mbuf* packet = packets[taken];
        // A packet of more than max_segments is dropped below rather than waited for.
        const uint16_t needed = O.multi_segment ? RTE_MIN(packet->nb_segs, ring.max_segments) : 1;
        if (needed > ring.mbufs.room()) break;
        mlx5::WqeCtrlSeg* wqe = write_wqe<O>(ring, *packet);
        if (wqe == nullptr) [[unlikely]] {
            drop(ring, packet);
            continue;
        }
        bytes += packet->pkt_len;
        keep<O>(ring, packet);
        last = wqe;
        ++posted;
    }
    if (posted > 0) {
        ring.counters.packets += posted;
        ring.counters.bytes += bytes;
        finish_burst(ring, last);
    }
    return taken;
}

constexpr TxOptions tx_options(size_t index) {
    return {(index & 1) != 0, (index & 2) != 0, (index & 4) != 0};
}
constexpr size_t kVariants = 8;

template <size_t I>
constexpr BurstName kName = burst_name("mlx5 scalar",
                                       {{tx_options(I).multi_segment, "multi-segment"},
                                        {tx_options(I).offloads, "offloads"},
                                        {tx_options(I).inline_header, "inline header"}});

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{Burst<eth_tx_burst_t>{send<tx_options(I)>, kName<I>.data()}...};
}
(std::make_index_sequence<kVariants>());

constexpr uint64_t kPacketOffloads = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |
                                     RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_VLAN_INSERT;

} // namespace

Burst<eth_tx_burst_t> tx_burst(const TxSpec& spec) {
    const bool multi_segment = (spec.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
    const bool offloads = (spec.offloads & kPacketOffloads) != 0;
    const bool inline_header = needs_inline_header(*spec.api, spec.context);
    return kBursts[size_t{multi_segment} | size_t{offloads} << 1 | size_t{inline_header} << 2];
}

} // namespace rawqp::mlx5rings
