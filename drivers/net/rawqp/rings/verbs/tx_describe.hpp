// SPDX-License-Identifier: BSD-3-Clause
// The first half of sending a run through verbs: looks at the packets and notes what posting needs.
#pragma once

#include "drivers/net/rawqp/rings/verbs/checksum.hpp"
#include "drivers/net/rawqp/rings/verbs/tx.hpp"

namespace rawqp::verbsrings {

/// Packets described and not yet posted. Their mbufs are in the slots from TxMbufs::head() on.
struct TxRun {
    uint16_t packets = 0;
    uint16_t head = 0; ///< TxMbufs position after the last one
    uint64_t bytes = 0;
    bool unsendable = false; ///< the packet after them cannot be sent
};

/// Length of the header of a packet to be segmented; 0 when the packet is not what it claims to be,
/// or this queue does not segment although another queue of the port does.
inline uint32_t checked_tso_header(const VerbsTxRing& ring, const rte_mbuf& packet) {
    const uint32_t header = tso_header_bytes(packet);
    const bool sound = ring.headers && header >= RTE_ETHER_HDR_LEN && header <= kMaxTsoHeader &&
                       header < packet.pkt_len && packet.tso_segsz != 0;
    return sound ? header : 0;
}

/// Whether the checksum of the IPv4 header is requested, and no other one.
inline bool wants_header_checksum_only(const rte_mbuf& packet) {
    constexpr uint64_t kHeader = RTE_MBUF_F_TX_IP_CKSUM;
    return (packet.ol_flags & (RTE_MBUF_F_TX_L4_MASK | kHeader)) == kHeader;
}

/// Frees what prepared() returned for a packet, as it is not sent now, without the packet itself.
inline void discard(const rte_mbuf& packet, rte_mbuf* prepared) {
    if (prepared != &packet) rte_pktmbuf_free(prepared);
}

/// Frees a packet for which a copy is sent. The array of the caller, who may go on to use it for
/// another queue, keeps its pointer.
inline void take_for(rte_mbuf& packet, const rte_mbuf* prepared) {
    if (prepared != &packet) [[unlikely]]
        rte_pktmbuf_free(&packet);
}

/// Cold: the packet with the checksum of its IPv4 header, or null.
[[gnu::noinline, gnu::cold]] inline rte_mbuf* with_checksum(rte_mbuf& packet,
                                                            uint16_t max_segments) {
    rte_mbuf* const ready = with_ipv4_checksum(packet);
    if (ready == nullptr || sendable(*ready, max_segments)) return ready;
    discard(packet, ready); // a copy in smaller mbufs
    return nullptr;
}

/// What is to be sent for the packet: itself, or a copy if it needs a change and others hold its
/// data as well. Null: it cannot be sent.
///
/// IBV_SEND_IP_CSUM makes the device compute both the IPv4 header and the L4 checksum. It serves
/// every request that includes L4 (a correct IPv4 header checksum stays what it was); the IPv4
/// header alone is done here, except for packets to be segmented.
template <TxOptions O> inline rte_mbuf* prepared(const VerbsTxRing& ring, rte_mbuf& packet) {
    const uint16_t max_segments = O.multi_segment ? ring.max_segments : 1;
    if (!sendable(packet, max_segments)) [[unlikely]]
        return nullptr;
    if constexpr (!O.checksum) return &packet;
    const bool segmented = O.tso && (packet.ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;
    if (segmented || !wants_header_checksum_only(packet)) [[likely]]
        return &packet;
    return with_checksum(packet, max_segments);
}

/// Describes in `sges` the packet's segments without its first `skip` bytes. Returns how many, or 0
/// when some memory has no lkey.
inline uint8_t gather(VerbsTxRing& ring, ibv_sge* sges, const rte_mbuf& packet, uint32_t skip) {
    uint8_t count = 0;
    for (const rte_mbuf* segment = &packet; segment != nullptr; segment = segment->next) {
        if (segment->data_len <= skip) {
            skip -= segment->data_len;
            continue;
        }
        const auto address = rte_pktmbuf_mtod_offset(segment, uintptr_t, skip);
        const MrEntry* mr = ring.mrs.find(address);
        if (mr == nullptr) [[unlikely]]
            return 0;
        sges[count++] = {.addr = address, .length = segment->data_len - skip, .lkey = mr->lkey};
        skip = 0;
    }
    return count;
}

/// Describes one packet, as prepared() returned it, as request `index`, whose segments start at
/// `head`. False: it cannot be sent.
template <TxOptions O>
inline bool describe(VerbsTxRing& ring, uint16_t index, const rte_mbuf& packet, uint16_t head) {
    uint32_t header = 0;
    if (O.tso && (packet.ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) {
        header = checked_tso_header(ring, packet);
        if (header == 0) return false;
    }
    const uint8_t sges = gather(ring, sges_of<O>(ring, index), packet, header);
    ring.requests[index] = {head, sges, static_cast<uint8_t>(header)};
    return sges > 0;
}

inline uint16_t keep(TxMbufs& mbufs, rte_mbuf* packet, uint16_t head) {
    for (rte_mbuf* segment = packet; segment != nullptr; segment = segment->next)
        mbufs.slot(head++) = segment;
    return head;
}

/// Describes packets of one mbuf on a queue without TSO, until one cannot be sent or finds no room.
template <TxOptions O>
inline TxRun describe_plain_run(VerbsTxRing& ring, rte_mbuf** packets, uint16_t count) {
    const uint16_t head = ring.mbufs.head();
    ibv_sge* const sges = ring.sges;
    MrEntry mr = ring.mrs.first();
    TxRun run;
    count = RTE_MIN(count, ring.mbufs.room());
    for (; run.packets < count; ++run.packets) {
        rte_mbuf* const packet = prepared<O>(ring, *packets[run.packets]);
        run.unsendable = packet == nullptr;
        if (run.unsendable) [[unlikely]]
            break;
        const auto address = rte_pktmbuf_mtod(packet, uintptr_t);
        if (address - mr.start >= mr.end - mr.start) [[unlikely]] {
            const MrEntry* const found = ring.mrs.find(address);
            run.unsendable = found == nullptr;
            if (run.unsendable) {
                discard(*packets[run.packets], packet);
                break;
            }
            mr = *found;
        }
        if (O.checksum) take_for(*packets[run.packets], packet);
        sges[run.packets] = {.addr = address, .length = packet->data_len, .lkey = mr.lkey};
        ring.mbufs.slot(static_cast<uint16_t>(head + run.packets)) = packet;
        run.bytes += packet->pkt_len;
    }
    run.head = static_cast<uint16_t>(head + run.packets);
    return run;
}

/// Describes packets, `count` and kTxRun at most, until one cannot be sent or finds no room.
template <TxOptions O>
inline TxRun describe_run(VerbsTxRing& ring, rte_mbuf** packets, uint16_t count) {
    if constexpr (kPlain<O>) return describe_plain_run<O>(ring, packets, count);
    TxRun run{.head = ring.mbufs.head()};
    const auto limit = static_cast<uint16_t>(run.head + ring.mbufs.room());
    for (; run.packets < count; ++run.packets) {
        rte_mbuf& given = *packets[run.packets];
        const auto room = static_cast<uint16_t>(limit - run.head);
        // A packet of more than max_segments is dropped rather than waited for.
        if (RTE_MIN(given.nb_segs, ring.max_segments) > room) break;
        rte_mbuf* const packet = prepared<O>(ring, given);
        const bool waits = packet != nullptr && packet->nb_segs > room; // a copy may be longer
        run.unsendable =
            packet == nullptr || (!waits && !describe<O>(ring, run.packets, *packet, run.head));
        if (waits || run.unsendable) [[unlikely]] {
            discard(given, packet);
            break;
        }
        if (O.checksum) take_for(given, packet);
        run.head = keep(ring.mbufs, packet, run.head);
        run.bytes += packet->pkt_len;
    }
    return run;
}

} // namespace rawqp::verbsrings
