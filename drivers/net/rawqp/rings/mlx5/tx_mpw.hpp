// SPDX-License-Identifier: BSD-3-Clause
// Writes enhanced multi-packet WQEs (eMPW): a control segment, an Ethernet segment whose offloads
// hold for all packets, and one data segment for each single-mbuf packet. 16 bytes per packet
// instead of 64.
#pragma once

#if defined(RAWQP_AVX2)
#include "drivers/net/rawqp/rings/mlx5/tx_avx2.hpp"
#endif
#include "drivers/net/rawqp/rings/mlx5/tx_options.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_schedule.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_uniform.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_wqe.hpp"

namespace rawqp::mlx5rings {

/// Mbuf flags whose packets need a WQE of their own. Devices insert no tags into the packets of an
/// eMPW: see mlx5_tx_able_to_empw() in net_mlx5, and mlx5e_tx_skb_supports_mpwqe() in Linux.
inline constexpr uint64_t kOwnWqe = RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_VLAN | RTE_MBUF_F_TX_QINQ;
/// Mbuf flags that the packets of one WQE must have in common. TCP and UDP ask for the same L4 bit.
inline constexpr uint64_t kSessionFlags = RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_TCP_CKSUM |
                                          RTE_MBUF_F_TX_OUTER_IP_CKSUM | RTE_MBUF_F_TX_TUNNEL_MASK |
                                          kOwnWqe;

/// Size that the next WQE may have, in segments, without wrapping or running out of room.
template <TxOptions O> inline uint32_t segment_limit(const MlxTxRing& ring) {
    uint32_t wqebbs = ring.wqebb_mask + 1 - (ring.producer & ring.wqebb_mask);
    if constexpr (O.long_wqes()) wqebbs = RTE_MIN(wqebbs, ring.free_wqebbs());
    return RTE_MIN(wqebbs * 4, mlx5::kMaxWqeSegments);
}

/// Whether the packet may share a WQE with those before it, of which `first` is the first one.
template <TxOptions O>
inline bool joins(const MlxTxRing& ring, const rte_mbuf& packet, const rte_mbuf& first) {
    if (packet.nb_segs != 1 || packet.data_len < kMinTxBytes) return false;
    if constexpr (O.metadata)
        if (metadata_of<O>(ring, packet) != metadata_of<O>(ring, first)) return false;
    if constexpr (O.scheduled)
        if (is_scheduled(ring, packet)) return false;
    if constexpr (O.offloads)
        if (((packet.ol_flags ^ first.ol_flags) & kSessionFlags) != 0) return false;
    return true;
}

/// fill_uniform with the widest vectors of this source's CPUs, if the packets are uniform. 0: they
/// are not.
template <TxOptions O>
inline uint64_t fill_all(const MlxTxRing& ring, const Session& session, rte_mbuf** packets,
                         uint32_t lkey_be) {
    constexpr bool kCheck = !O.fast_free || O.offloads;
    const uint64_t mask = (O.offloads ? kSessionFlags : 0) | (O.metadata ? ring.metadata_flag : 0) |
                          (O.scheduled ? ring.times.flag : 0); // the first packet has no time
    // The metadata may differ.
    if (O.metadata && (packets[0]->ol_flags & ring.metadata_flag) != 0) return 0;
#if defined(RAWQP_AVX2)
    if (O.avx2 && session.limit >= 4)
        return fill_uniform_avx2<kCheck>(session, packets, lkey_be, mask);
#endif
    return fill_uniform<kCheck>(session, packets, lkey_be, mask);
}

/// Stores something into each line of the WQE after its first one, ahead of its segments, so that
/// the CPU requests several lines at once: see fill_fours().
inline void ask_for_lines(const Session& session) {
    constexpr uint32_t kSegmentsPerLine = RTE_CACHE_LINE_SIZE / mlx5::kSegment;
    for (uint32_t i = kSegmentsPerLine - kHeadSegments; i < session.limit; i += kSegmentsPerLine)
        __atomic_store_n(&session.data[i].addr.raw, 0, __ATOMIC_RELAXED);
    rte_compiler_barrier(); // keeps them before the packets' stores
}

/// Takes packets one by one as long as they can join the first one. Returns how many.
template <TxOptions O>
inline uint32_t fill_mixed(MlxTxRing& ring, const TxBatch& batch, Session& session,
                           rte_mbuf** packets) {
    for (uint32_t i = 0; i < session.limit; ++i) {
        rte_mbuf* const packet = packets[i];
        if (!joins<O>(ring, *packet, *packets[0])) return i;
        const auto address = rte_pktmbuf_mtod(packet, uintptr_t);
        const MrEntry* mr = ring.mrs.find(address);
        if (mr == nullptr) [[unlikely]]
            return i;
        session.put(i, packet, address, mr->lkey_be);
        if (!O.fast_free && !is_plain(*packet, batch.pool)) session.needs_slow_free = 1;
    }
    return session.limit;
}

/// The same, with short packets copied into the WQE, which may have `max_size` segments and gets
/// `size`.
template <TxOptions O>
inline uint32_t fill_inline(MlxTxRing& ring, const TxBatch& batch, Session& session,
                            rte_mbuf** packets, uint32_t max_size, uint32_t& size) {
    size = kHeadSegments;
    for (uint32_t i = 0; i < session.limit; ++i) {
        rte_mbuf* const packet = packets[i];
        if (!joins<O>(ring, *packet, *packets[0])) return i;
        const uint32_t length = packet->data_len;
        mlx5::WqeDataSeg* const at = session.data + (size - kHeadSegments);
        if (length <= ring.inline_bytes && (packet->ol_flags & ring.no_inline_flag) == 0) {
            if (size + inline_segments(length) > max_size) return i;
            net::store_be<uint32_t>(at, mlx5::kInlineFlag | length);
            memcpy(reinterpret_cast<uint8_t*>(at) + sizeof(mlx5::WqeInlineSeg),
                   rte_pktmbuf_mtod(packet, const void*), length);
            size += inline_segments(length);
        } else {
            if (size == max_size || !write_data(ring, *at, *packet, 0)) return i;
            ++size;
        }
        session.keep(i, packet, length);
        if (!O.fast_free && !is_plain(*packet, batch.pool)) session.needs_slow_free = 1;
    }
    return session.limit;
}

/// Writes one WQE for as many of the packets as it takes, `count` at most (which have slots in
/// TxMbufs), and notes them as in flight. Returns how many; 0 when the first one needs a WQE of its
/// own, cannot be sent or has no room.
template <TxOptions O>
inline uint32_t write_session(MlxTxRing& ring, TxBatch& batch, rte_mbuf** packets, uint32_t count) {
    const uint32_t max_size = segment_limit<O>(ring);
    if (max_size <= kHeadSegments) return 0;
    if (O.offloads && (packets[0]->ol_flags & kOwnWqe) != 0) return 0;
    uint8_t* const wqe = ring.wqebb(ring.producer);
    Session session{.data = reinterpret_cast<mlx5::WqeDataSeg*>(wqe + 2 * mlx5::kSegment),
                    .slots = &ring.mbufs.slot(ring.mbufs.head()),
                    .limit = RTE_MIN(count, uint32_t{ring.mbufs.run()})};
    uint32_t taken;
    uint32_t size;
    if constexpr (O.inlining == Inlining::packet) {
        taken = fill_inline<O>(ring, batch, session, packets, max_size, size);
    } else {
        session.limit = RTE_MIN(session.limit, max_size - kHeadSegments);
        taken = session.limit;
        const bool may_be_alike = // a later WQE's mbufs may all be of another pool than the burst's
            O.fast_free || (!ring.was_mixed && packets[0]->pool == batch.pool);
        if (batch.lkey_be != 0 && may_be_alike)
            session.bytes = fill_all<O>(ring, session, packets, batch.lkey_be);
        else
            ask_for_lines(session);
        if (session.bytes == 0) {
            batch.lkey_be = 0; // once is enough for a burst
            taken = fill_mixed<O>(ring, batch, session, packets);
        }
        size = kHeadSegments + taken;
    }
    if (taken == 0) return 0;

    auto& eth = *reinterpret_cast<mlx5::WqeEthSeg*>(wqe + mlx5::kSegment);
    eth = {};
    if constexpr (O.offloads) eth.cs_flags = checksum_flags(packets[0]->ol_flags);
    if constexpr (O.metadata) eth.metadata = metadata_of<O>(ring, *packets[0]);
    batch.last = write_control(ring, wqe, mlx5::WqeOpcode::enhanced_mpw, size);
    batch.bytes += session.bytes;
    batch.packets += taken;
    batch.needs_slow_free |= session.needs_slow_free;
    ring.producer = static_cast<uint16_t>(ring.producer + (size + 3) / 4);
    ring.mbufs.set_head(static_cast<uint16_t>(ring.mbufs.head() + taken));
    return taken;
}

} // namespace rawqp::mlx5rings
