// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/tx.hpp"

#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/verbs/checksum.hpp"

#include <utility>

namespace rawqp::verbsrings {
namespace {

constexpr uint64_t pack_positions(uint16_t start, uint16_t end) {
    return uint64_t{start} << 16 | end;
}
constexpr uint16_t start_of(uint64_t wr_id) { return static_cast<uint16_t>(wr_id >> 16); }
constexpr uint16_t end_of(uint64_t wr_id) { return static_cast<uint16_t>(wr_id); }

/// Cold: the completion at the CQ's cursor is an error. The packets before the failed one were sent
/// even if no completion told so; it and those behind it are lost.
[[gnu::noinline, gnu::cold]] void note_error(VerbsTxRing& ring) {
    ring.faulty = true;
    ring.error_status = ring.cq->status;
    ring.error_vendor = ibv_wc_read_vendor_err(ring.cq);
    count_lost(ring, ring.mbufs, start_of(ring.cq->wr_id));
    ring.mbufs.free_all();
}

/// Cold: true when the QP was reset and can be used again.
[[gnu::noinline, gnu::cold]] bool recover(VerbsTxRing& ring) {
    if (!ring.retry.try_pass() || ring.reset_qp(ring) != 0) return false;
    log_recovery(ring, ring.error_status, ring.error_vendor);
    drain(ring);
    ring.mrs.clear(); // a stale lkey may be what broke the queue
    rewind(ring);
    return true;
}

void free_until(VerbsTxRing& ring, uint16_t end) {
    TxMbufs& mbufs = ring.mbufs;
    const bool whole = ring.fast_free && end != mbufs.tail();
    mbufs.free_until(end, whole ? mbufs.slot(mbufs.tail())->pool : nullptr);
}

struct TxOptions {
    bool multi_segment; ///< packets in several mbufs
    bool checksum;      ///< checksums may be asked for
    bool tso;           ///< segmentation may be asked for
};

/// IBV_SEND_IP_CSUM makes the device compute both the IPv4 header and the L4 checksum. It serves
/// every request that includes L4 (a sound IPv4 header checksum stays what it was); the IPv4 header
/// alone is done here. False: that header is not in reach.
inline bool request_checksums(ibv_send_wr& request, rte_mbuf& packet) {
    if (packet.ol_flags & RTE_MBUF_F_TX_L4_MASK) {
        request.send_flags |= IBV_SEND_IP_CSUM;
        return true;
    }
    return !(packet.ol_flags & RTE_MBUF_F_TX_IP_CKSUM) || set_ipv4_checksum(packet);
}

/// Asks for segmentation. The header goes into the WQE: it stands in one piece in the first mbuf,
/// or is put together in `scratch`. Returns its length, 0 when the packet is not what it is said to
/// be.
inline uint32_t request_segments(ibv_send_wr& request, const rte_mbuf& packet, uint8_t* scratch) {
    const uint32_t header = tso_header_bytes(packet);
    if (header < RTE_ETHER_HDR_LEN || header > kMaxTsoHeader || header >= packet.pkt_len ||
        packet.tso_segsz == 0)
        return 0;
    const void* at = rte_pktmbuf_read(&packet, 0, header, scratch);
    if (at == nullptr) return 0;
    request.opcode = IBV_WR_TSO;
    request.send_flags |= IBV_SEND_IP_CSUM; // of every segment
    request.tso.hdr = const_cast<void*>(at);
    request.tso.hdr_sz = static_cast<uint16_t>(header);
    request.tso.mss = packet.tso_segsz;
    return header;
}

/// Describes in `sges` the packet's segments without its first `skip` bytes. Returns how many, 0
/// when it cannot be sent.
inline int gather(VerbsTxRing& ring, ibv_sge* sges, const rte_mbuf& packet, uint32_t skip) {
    int count = 0;
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

/// Fills the request for one packet, whose segments will start at `head`. False: it cannot be sent.
template <TxOptions O>
inline bool describe(VerbsTxRing& ring, ibv_send_wr& request, ibv_sge* sges, rte_mbuf& packet,
                     uint16_t head) {
    if (!sendable(packet, O.multi_segment ? ring.max_segments : 1)) [[unlikely]]
        return false;
    request.opcode = IBV_WR_SEND;
    request.send_flags = 0;
    uint32_t header = 0;
    if (O.tso && (packet.ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0) {
        header = request_segments(request, packet, ring.header_scratch(request));
        if (header == 0) return false;
    } else if constexpr (O.checksum) {
        if (!request_checksums(request, packet)) return false;
    }
    request.wr_id = pack_positions(head, static_cast<uint16_t>(head + packet.nb_segs));
    request.sg_list = sges;
    request.num_sge = gather(ring, sges, packet, header);
    return request.num_sge > 0;
}

inline uint16_t keep(TxMbufs& mbufs, rte_mbuf* packet, uint16_t head) {
    for (rte_mbuf* segment = packet; segment != nullptr; segment = segment->next)
        mbufs.slot(head++) = segment;
    return head;
}

/// Requests written for a chunk of packets, not yet posted.
struct Chunk {
    uint16_t taken = 0;    ///< packets looked at
    uint16_t requests = 0; ///< packets described; the others were dropped and counted
    uint16_t head = 0;     ///< TxMbufs position behind the last one
};

template <TxOptions O> Chunk describe_chunk(VerbsTxRing& ring, rte_mbuf** packets, uint16_t count) {
    Chunk chunk{.head = ring.mbufs.head()};
    const auto limit = static_cast<uint16_t>(ring.mbufs.head() + ring.mbufs.room());
    for (; chunk.taken < count; ++chunk.taken) {
        rte_mbuf* packet = packets[chunk.taken];
        // A packet of more than max_segments is dropped below rather than waited for.
        if (RTE_MIN(packet->nb_segs, ring.max_segments) > static_cast<uint16_t>(limit - chunk.head))
            break;
        ibv_send_wr& request = ring.requests[chunk.requests];
        ibv_sge* sges = &ring.sges[size_t{chunk.requests} * ring.max_segments];
        if (!describe<O>(ring, request, sges, *packet, chunk.head)) [[unlikely]] {
            drop(ring, packet);
            continue;
        }
        chunk.head = keep(ring.mbufs, packet, chunk.head);
        ++chunk.requests;
    }
    return chunk;
}

/// Posts the chunk's requests, the last one signalled. Returns how many were accepted.
uint16_t post(VerbsTxRing& ring, const Chunk& chunk) {
    ibv_send_wr& last = ring.requests[chunk.requests - 1];
    last.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* const link = std::exchange(last.next, nullptr);
    ibv_send_wr* refused = nullptr;
    const int error = ibv_post_send(ring.qp, ring.requests, &refused);
    last.next = link;
    if (error == 0) [[likely]]
        return chunk.requests;
    return static_cast<uint16_t>(refused != nullptr ? refused - ring.requests : 0);
}

/// Describes and posts the packets, kTxChunk at most. Returns how many were taken from the caller.
template <TxOptions O> uint16_t send_chunk(VerbsTxRing& ring, rte_mbuf** packets, uint16_t count) {
    const Chunk chunk = describe_chunk<O>(ring, packets, count);
    if (chunk.requests == 0) return chunk.taken;
    const uint16_t accepted = post(ring, chunk);
    const uint16_t end =
        accepted > 0 ? end_of(ring.requests[accepted - 1].wr_id) : ring.mbufs.head();
    uint64_t bytes = 0;
    for (uint16_t i = 0; i < accepted; ++i)
        bytes += ring.mbufs.slot(start_of(ring.requests[i].wr_id))->pkt_len;
    ring.counters.packets += accepted;
    ring.counters.bytes += bytes;
    // The provider refused the rest. Dropped packets may lie between, so the caller cannot have it
    // back: it is dropped as well.
    for (uint16_t i = accepted; i < chunk.requests; ++i)
        drop(ring, ring.mbufs.slot(start_of(ring.requests[i].wr_id)));
    ring.mbufs.set_head(end);
    return chunk.taken;
}

template <TxOptions O> uint16_t send(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<VerbsTxRing*>(queue);
    if (!reap(ring, UINT32_MAX)) [[unlikely]]
        return 0;
    ring.mrs.sync();
    uint16_t sent = 0;
    while (sent < count) {
        const auto wanted = RTE_MIN(static_cast<uint16_t>(count - sent), kTxChunk);
        const uint16_t taken = send_chunk<O>(ring, packets + sent, wanted);
        sent = static_cast<uint16_t>(sent + taken);
        if (taken < wanted) break;
    }
    return sent;
}

constexpr TxOptions tx_options(size_t index) {
    return {(index & 1) != 0, (index & 2) != 0, (index & 4) != 0};
}
constexpr size_t kVariants = 8;

template <size_t I>
constexpr BurstName kName = burst_name("verbs", {{tx_options(I).multi_segment, "multi-segment"},
                                                 {tx_options(I).checksum, "checksum"},
                                                 {tx_options(I).tso, "TSO"}});

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{Burst<eth_tx_burst_t>{send<tx_options(I)>, kName<I>.data()}...};
}
(std::make_index_sequence<kVariants>());

constexpr uint64_t kChecksumOffloads =
    RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;

} // namespace

Result<TxRing*> tx_create(const TxSpec& spec) {
    if (auto sound = check_tx_spec(spec); !sound) return tl::unexpected(sound.error());
    SocketPtr<VerbsTxRing> ring(create_on_socket<VerbsTxRing>(spec.socket));
    auto requests = socket_array<ibv_send_wr>(kTxChunk, spec.socket);
    auto sges = socket_array<ibv_sge>(size_t{kTxChunk} * spec.max_segments, spec.socket);
    SocketArray<TsoHeader> headers;
    if (spec.offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO)
        headers = socket_array<TsoHeader>(kTxChunk, spec.socket);
    if (!ring || !requests || !sges || !init_tx_ring(*ring, spec) ||
        (!headers && (spec.offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO)))
        return fail(ENOMEM, "port {} Tx queue {}: no DPDK memory for a ring of {}", spec.port_id,
                    spec.queue_id, spec.descriptors);
    ring->fast_free = whole_packets_of_one_pool(spec.offloads);
    ring->cq = spec.cq;
    ring->qp = spec.qp;
    ring->request_memory = std::move(requests);
    ring->sge_memory = std::move(sges);
    ring->headers = std::move(headers);
    ring->requests = ring->request_memory.get();
    ring->sges = ring->sge_memory.get();
    for (uint16_t i = 0; i < kTxChunk; ++i)
        ring->requests[i].next = &ring->requests[(i + 1) % kTxChunk];
    return ring.release();
}

Burst<eth_tx_burst_t> tx_burst(const TxSpec& spec) {
    const bool multi_segment = (spec.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
    const bool checksum = (spec.offloads & kChecksumOffloads) != 0;
    const bool tso = (spec.offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0;
    return kBursts[size_t{multi_segment} | size_t{checksum} << 1 | size_t{tso} << 2];
}

void rewind(VerbsTxRing& ring) {
    ring.mbufs.rewind();
    ring.faulty = false;
}

void drain(VerbsTxRing& ring) {
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(ring.cq, &attributes) != 0) return;
    while (ibv_next_poll(ring.cq) == 0) {
    }
    ibv_end_poll(ring.cq);
}

bool reap(VerbsTxRing& ring, uint32_t limit) {
    if (ring.faulty) [[unlikely]]
        return recover(ring);
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(ring.cq, &attributes) != 0) return true;
    const uint16_t tail = ring.mbufs.tail();
    uint16_t done = tail;
    do {
        if (ring.cq->status != IBV_WC_SUCCESS) [[unlikely]] {
            free_until(ring, done);
            note_error(ring);
            break;
        }
        done = end_of(ring.cq->wr_id);
    } while (static_cast<uint16_t>(done - tail) < limit && ibv_next_poll(ring.cq) == 0);
    ibv_end_poll(ring.cq);
    if (ring.faulty) [[unlikely]]
        return recover(ring);
    free_until(ring, done);
    return true;
}

} // namespace rawqp::verbsrings
