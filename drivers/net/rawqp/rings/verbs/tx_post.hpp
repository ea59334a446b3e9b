// SPDX-License-Identifier: BSD-3-Clause
// The second half of sending a run through verbs: hands what was described to the provider.
#pragma once

#include "drivers/net/rawqp/rings/verbs/tx_describe.hpp"

#include <utility>

namespace rawqp::verbsrings {

/// What posting needs to know of request `index` of a run that starts at TxMbufs position `first`.
template <TxOptions O>
inline TxRequest request_of(const VerbsTxRing& ring, uint16_t first, uint16_t index) {
    if constexpr (kPlain<O>) return {static_cast<uint16_t>(first + index), 1, 0};
    return ring.requests[index];
}

template <TxOptions O>
inline uint64_t positions_of(const TxRequest& request, const rte_mbuf& packet) {
    const unsigned segments = O.multi_segment ? packet.nb_segs : 1u;
    return pack_positions(request.start, static_cast<uint16_t>(request.start + segments));
}

template <TxOptions O> inline unsigned send_flags(const rte_mbuf& packet) {
    constexpr uint64_t kWanted = RTE_MBUF_F_TX_L4_MASK | (O.tso ? RTE_MBUF_F_TX_TCP_SEG : 0);
    if constexpr (!O.checksum && !O.tso) return 0;
    return (packet.ol_flags & kWanted) != 0 ? IBV_SEND_IP_CSUM : 0;
}

template <TxOptions O> inline bool is_inlined(const VerbsTxRing& ring, const rte_mbuf& packet) {
    return O.inlining && packet.pkt_len <= ring.inline_bytes &&
           (packet.ol_flags & ring.no_inline_flag) == 0;
}

/// The header of a packet to be segmented: in place if the first mbuf holds it in one piece, else
/// assembled.
inline void* tso_header(VerbsTxRing& ring, uint16_t index, const rte_mbuf& packet, uint32_t bytes) {
    return const_cast<void*>(rte_pktmbuf_read(&packet, 0, bytes, ring.headers[index].data()));
}

/// The data of an inlined packet.
template <TxOptions O>
inline void set_inline_data(ibv_qp_ex* qp, const ibv_sge* sges, unsigned count) {
    if constexpr (!O.multi_segment) {
        ibv_wr_set_inline_data(qp, reinterpret_cast<void*>(sges->addr), sges->length);
        return;
    }
    ibv_data_buf pieces[kMaxTxSegments];
    for (unsigned i = 0; i < count; ++i)
        pieces[i] = {reinterpret_cast<void*>(sges[i].addr), sges[i].length};
    ibv_wr_set_inline_data_list(qp, count, pieces);
}

template <TxOptions O> inline void set_data(ibv_qp_ex* qp, const ibv_sge* sges, unsigned count) {
    if constexpr (O.multi_segment)
        ibv_wr_set_sge_list(qp, count, sges);
    else
        ibv_wr_set_sge(qp, sges->lkey, sges->addr, sges->length);
}

/// One request through ibv_wr_*; `flags` are ibv_send_flags.
template <TxOptions O>
inline void put_request(VerbsTxRing& ring, ibv_qp_ex* qp, uint16_t first, uint16_t index,
                        unsigned flags) {
    const TxRequest request = request_of<O>(ring, first, index);
    const rte_mbuf& packet = *ring.mbufs.slot(request.start);
    const ibv_sge* const sges = sges_of<O>(ring, index);
    qp->wr_id = positions_of<O>(request, packet);
    qp->wr_flags = flags | send_flags<O>(packet);
    if (O.tso && request.header != 0) {
        ibv_wr_send_tso(qp, tso_header(ring, index, packet, request.header), request.header,
                        packet.tso_segsz);
        set_data<O>(qp, sges, request.sges);
        return;
    }
    ibv_wr_send(qp);
    if (is_inlined<O>(ring, packet))
        set_inline_data<O>(qp, sges, request.sges);
    else
        set_data<O>(qp, sges, request.sges);
}

/// The same, where only the packet's SGE is needed.
inline void put_bare(ibv_qp_ex* qp, const ibv_sge& sge, uint16_t position, unsigned flags) {
    qp->wr_id = pack_positions(position, static_cast<uint16_t>(position + 1));
    qp->wr_flags = flags;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, sge.lkey, sge.addr, sge.length);
}

/// Posts the run. Returns how many requests the provider accepted: all or none.
template <TxOptions O> inline uint16_t post_work_requests(VerbsTxRing& ring, const TxRun& run) {
    constexpr bool kBare = kPlain<O> && !O.checksum && !O.inlining;
    ibv_qp_ex* const qp = ring.qp_ex;
    const ibv_sge* const sges = ring.sges;
    const uint16_t first = ring.mbufs.head();
    const auto last = static_cast<uint16_t>(run.packets - 1);
    const auto put = [&](uint16_t index, unsigned flags) {
        if constexpr (kBare)
            put_bare(qp, sges[index], static_cast<uint16_t>(first + index), flags);
        else
            put_request<O>(ring, qp, first, index, flags);
    };
    ibv_wr_start(qp);
    for (uint16_t i = 0; i < last; ++i)
        put(i, 0);
    put(last, IBV_SEND_SIGNALED);
    return ibv_wr_complete(qp) == 0 ? run.packets : 0;
}

/// One request for ibv_post_send.
template <TxOptions O>
inline void write_request(VerbsTxRing& ring, uint16_t first, uint16_t index) {
    const TxRequest request = request_of<O>(ring, first, index);
    const rte_mbuf& packet = *ring.mbufs.slot(request.start);
    ibv_send_wr& wr = ring.send_wrs[index];
    wr.wr_id = positions_of<O>(request, packet);
    wr.send_flags = send_flags<O>(packet);
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = sges_of<O>(ring, index);
    wr.num_sge = request.sges;
    if (O.tso && request.header != 0) {
        wr.opcode = IBV_WR_TSO;
        wr.tso.hdr = tso_header(ring, index, packet, request.header);
        wr.tso.hdr_sz = request.header;
        wr.tso.mss = packet.tso_segsz;
    } else if (is_inlined<O>(ring, packet)) {
        wr.send_flags |= IBV_SEND_INLINE;
    }
}

/// Posts the run. Returns how many requests the provider accepted.
template <TxOptions O> inline uint16_t post_send(VerbsTxRing& ring, const TxRun& run) {
    const uint16_t first = ring.mbufs.head();
    for (uint16_t i = 0; i < run.packets; ++i)
        write_request<O>(ring, first, i);
    ibv_send_wr& last = ring.send_wrs[run.packets - 1];
    last.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* const link = std::exchange(last.next, nullptr);
    ibv_send_wr* refused = nullptr;
    const int error = ibv_post_send(ring.qp, ring.send_wrs, &refused);
    last.next = link;
    if (error == 0) [[likely]]
        return run.packets;
    return static_cast<uint16_t>(refused != nullptr ? refused - ring.send_wrs : 0);
}

template <TxOptions O> inline uint16_t post(VerbsTxRing& ring, const TxRun& run) {
    if constexpr (O.work_requests) return post_work_requests<O>(ring, run);
    return post_send<O>(ring, run);
}

} // namespace rawqp::verbsrings
