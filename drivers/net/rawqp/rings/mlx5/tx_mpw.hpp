// SPDX-License-Identifier: BSD-3-Clause
// Writes enhanced multi-packet WQEs (eMPW): a control segment, an Ethernet segment whose offloads
// hold for all packets, and one data segment for each packet of one mbuf. 16 bytes a packet instead
// of 64.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/tx_alike.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_options.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_wqe.hpp"

namespace rawqp::mlx5rings {

/// Mbuf flags that packets of one WQE must have in common. TCP and UDP ask for the same L4 bit.
inline constexpr uint64_t kSessionFlags =
    RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM | RTE_MBUF_F_TX_VLAN;

/// How many packets a session may take: the WQE does not wrap, nor do its slots in TxMbufs.
inline uint32_t session_limit(const MlxTxRing& ring, uint32_t count) {
    constexpr uint32_t kHead = 2; // control and Ethernet segment
    const uint32_t to_end = ring.wqebb_mask + 1 - (ring.producer & ring.wqebb_mask);
    const uint32_t segments = RTE_MIN(to_end * 4, mlx5::kMaxWqeSegments);
    return RTE_MIN(RTE_MIN(count, segments - kHead), uint32_t{ring.mbufs.run()});
}

/// Takes packets one by one as long as they agree with the first one. Returns how many.
template <TxOptions O>
inline uint32_t fill_mixed(MlxTxRing& ring, TxBatch& batch, Session& session, rte_mbuf** packets) {
    const rte_mbuf& first = *packets[0];
    for (uint32_t i = 0; i < session.limit; ++i) {
        rte_mbuf* const packet = packets[i];
        if (packet->nb_segs != 1 || packet->data_len < kMinTxBytes) return i;
        if constexpr (O.offloads) {
            if (((packet->ol_flags ^ first.ol_flags) & kSessionFlags) != 0) return i;
            if (wants_vlan(*packet) && packet->vlan_tci != first.vlan_tci) return i;
        }
        const auto address = rte_pktmbuf_mtod(packet, uintptr_t);
        const MrEntry* mr = ring.mrs.find(address);
        if (mr == nullptr) [[unlikely]]
            return i;
        session.put(i, packet, address, mr->lkey_be);
        if (!O.fast_free && !is_plain(*packet, batch.pool)) session.odd = 1;
    }
    return session.limit;
}

/// fill_alike on the CPU's best, when all packets may be taken for alike. False: they are not.
template <TxOptions O>
inline bool fill_all(Session& session, rte_mbuf** packets, uint32_t lkey_be) {
    constexpr bool kCheck = !O.fast_free || O.offloads;
    const uint64_t flags = packets[0]->ol_flags;
    if (O.offloads && (flags & RTE_MBUF_F_TX_VLAN) != 0) return false; // whose tags may differ
    constexpr uint64_t kMask = O.offloads ? kSessionFlags : 0;
#if defined(__x86_64__)
    if constexpr (O.avx2) return fill_alike_avx2<kCheck>(session, packets, lkey_be, kMask);
#endif
    return fill_alike<kCheck>(session, packets, lkey_be, kMask);
}

/// Writes one WQE for as many of the packets as it takes, `count` at most (which have room), and
/// notes them as in flight. Returns how many; 0 when the first one needs a WQE of its own or cannot
/// be sent.
template <TxOptions O>
inline uint32_t write_session(MlxTxRing& ring, TxBatch& batch, rte_mbuf** packets, uint32_t count) {
    uint8_t* const wqe = ring.wqebb(ring.producer);
    Session session{.data = reinterpret_cast<mlx5::WqeDataSeg*>(wqe + 2 * mlx5::kSegment),
                    .slots = &ring.mbufs.slot(ring.mbufs.head()),
                    .limit = session_limit(ring, count)};
    uint32_t taken = session.limit;
    if (batch.lkey_be == 0 || !fill_all<O>(session, packets, batch.lkey_be)) {
        session.bytes = 0;
        batch.lkey_be = 0; // once is enough for a burst
        taken = fill_mixed<O>(ring, batch, session, packets);
        if (taken == 0) return 0;
    }
    const uint32_t size = taken + 2;
    auto& eth = *reinterpret_cast<mlx5::WqeEthSeg*>(wqe + mlx5::kSegment);
    eth = {};
    if constexpr (O.offloads) write_offloads(eth, *packets[0]);
    batch.last = write_control(ring, wqe, mlx5::WqeOpcode::enhanced_mpw, size);
    batch.bytes += session.bytes;
    batch.packets += taken;
    batch.odd |= session.odd;
    ring.producer = static_cast<uint16_t>(ring.producer + (size + 3) / 4);
    ring.mbufs.set_head(static_cast<uint16_t>(ring.mbufs.head() + taken));
    return taken;
}

} // namespace rawqp::mlx5rings
