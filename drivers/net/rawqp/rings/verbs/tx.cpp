// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/tx.hpp"

#include "drivers/net/rawqp/rings/burst_name.hpp"
#include "drivers/net/rawqp/rings/verbs/tx_post.hpp"

#include <utility>

namespace rawqp::verbsrings {
namespace {

/// Cold: the completion at the CQ's cursor is an error. The packets before the failed one were sent
/// even if no completion said so; the failed one and those after it are lost.
[[gnu::noinline, gnu::cold]] void note_error(VerbsTxRing& ring) {
    ring.faulty = true;
    ring.error_status = ring.cq->status;
    ring.error_vendor = ibv_wc_read_vendor_err(ring.cq);
    count_lost(ring, ring.mbufs, start_of(ring.cq->wr_id));
    ring.mbufs.free_all();
}

/// Cold: true when the QP was reset and can be used again.
[[gnu::noinline, gnu::cold]] bool recover(VerbsTxRing& ring) {
    if (!ring.retry.try_pass() || ring_host(ring.port_id).reset(ring) != 0) return false;
    log_recovery(ring, ring.error_status, ring.error_vendor);
    drain(ring);
    ring.mrs.clear(); // a stale lkey may be what broke the queue
    rewind(ring);
    return true;
}

/// Cold: the provider refused the run's packets from `accepted` on. It may have reason to refuse
/// one of them for ever, so they are dropped. Some may be copies of what the application gave.
[[gnu::noinline, gnu::cold]] void drop_refused(VerbsTxRing& ring, const TxRun& run,
                                               uint16_t accepted) {
    uint16_t next = ring.mbufs.head();
    for (uint16_t i = 0; i < run.packets; ++i) {
        if (i == accepted) ring.mbufs.set_head(next);
        rte_mbuf* const packet = ring.mbufs.slot(next);
        next = static_cast<uint16_t>(next + segments_of(*packet));
        if (i < accepted) continue;
        count_down(ring.counters.packets);
        count_down(ring.counters.bytes, packet->pkt_len);
        drop(ring, packet);
    }
}

bool wants_tso(const TxSpec& spec) { return (spec.offloads & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0; }

/// Sends a run of packets. Returns how many were taken from the caller; `blocked` tells that the
/// next one has to wait for room.
template <TxOptions O>
inline uint16_t send_run(VerbsTxRing& ring, rte_mbuf** packets, uint16_t count, bool& blocked) {
    const TxRun run = describe_run<O>(ring, packets, RTE_MIN(count, kTxRun));
    blocked = run.packets < RTE_MIN(count, kTxRun) && !run.unsendable;
    if (run.packets > 0) {
        const uint16_t accepted = post<O>(ring, run);
        count_up(ring.counters.packets, run.packets);
        count_up(ring.counters.bytes, run.bytes);
        if (accepted < run.packets) [[unlikely]]
            drop_refused(ring, run, accepted);
        else
            ring.mbufs.set_head(run.head);
    }
    if (!run.unsendable) [[likely]]
        return run.packets;
    drop(ring, packets[run.packets]);
    return static_cast<uint16_t>(run.packets + 1);
}

template <TxOptions O> uint16_t send(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<VerbsTxRing*>(queue);
    if (!reap(ring)) [[unlikely]]
        return 0;
    ring.mrs.sync();
    uint16_t sent = 0;
    bool blocked = false;
    while (sent < count && !blocked) {
        const auto left = static_cast<uint16_t>(count - sent);
        sent = static_cast<uint16_t>(sent + send_run<O>(ring, packets + sent, left, blocked));
    }
    return sent;
}

constexpr TxOptions tx_options(size_t index) {
    return {(index & 1) != 0, (index & 2) != 0, (index & 4) != 0, (index & 8) != 0,
            (index & 16) != 0};
}
constexpr size_t kVariants = 32;

template <size_t I>
constexpr BurstName kName = burst_name("verbs", {{tx_options(I).work_requests, "work requests"},
                                                 {tx_options(I).multi_segment, "multi-segment"},
                                                 {tx_options(I).checksum, "checksum"},
                                                 {tx_options(I).tso, "TSO"},
                                                 {tx_options(I).inlining, "inline"}});

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{Burst<eth_tx_burst_t>{send<tx_options(I)>, kName<I>.data()}...};
}
(std::make_index_sequence<kVariants>());

constexpr uint64_t kChecksumOffloads =
    RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;

} // namespace

TxQpNeeds tx_needs(const TxSpec& spec) {
    TxQpNeeds needs;
    needs.cap.max_send_wr = spec.descriptors;
    needs.cap.max_send_sge = spec.max_segments;
    needs.cap.max_inline_data = spec.inline_bytes;
    needs.send_ops = IBV_QP_EX_WITH_SEND;
    if (wants_tso(spec)) {
        needs.max_tso_header = kMaxTsoHeader;
        needs.send_ops |= IBV_QP_EX_WITH_TSO;
    }
    needs.thread_domain = true;
    return needs;
}

Result<TxRing*> tx_create(const TxSpec& spec) {
    if (auto sound = check_tx_spec(spec); !sound) return tl::unexpected(sound.error());
    SocketPtr<VerbsTxRing> ring(create_on_socket<VerbsTxRing>(spec.socket));
    auto requests = socket_array<TxRequest>(kTxRun, spec.socket);
    auto send_wrs = socket_array<ibv_send_wr>(kTxRun, spec.socket);
    auto sges = socket_array<ibv_sge>(size_t{kTxRun} * spec.max_segments, spec.socket);
    SocketArray<TsoHeader> headers;
    if (wants_tso(spec)) headers = socket_array<TsoHeader>(kTxRun, spec.socket);
    if (!ring || !requests || !send_wrs || !sges || !init_tx_ring(*ring, spec) ||
        (!headers && wants_tso(spec)))
        return fail(ENOMEM, "port {} Tx queue {}: no DPDK memory for a ring of {}", spec.port_id,
                    spec.queue_id, spec.descriptors);
    ring->fast_free = whole_packets_of_one_pool(spec.offloads);
    ring->cq = spec.cq;
    ring->qp = spec.qp;
    ring->qp_ex = spec.qp_ex;
    ring->inline_bytes = spec.inline_bytes;
    ring->request_memory = std::move(requests);
    ring->send_wr_memory = std::move(send_wrs);
    ring->sge_memory = std::move(sges);
    ring->headers = std::move(headers);
    ring->requests = ring->request_memory.get();
    ring->send_wrs = ring->send_wr_memory.get();
    ring->sges = ring->sge_memory.get();
    for (uint16_t i = 0; i < kTxRun; ++i)
        ring->send_wrs[i].next = &ring->send_wrs[(i + 1) % kTxRun];
    return ring.release();
}

void tx_start(TxRing& base) {
    rawqp::tx_start<VerbsTxRing>(base);
    static_cast<VerbsTxRing&>(base).no_inline_flag = no_inline_flag();
}

Burst<eth_tx_burst_t> tx_burst(const TxSpec& spec) {
    const bool multi_segment = (spec.offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
    const bool checksum = (spec.offloads & kChecksumOffloads) != 0;
    const bool inlining = spec.inline_bytes != 0;
    return kBursts[size_t{multi_segment} | size_t{checksum} << 1 | size_t{wants_tso(spec)} << 2 |
                   size_t{inlining} << 3 | size_t{spec.work_requests} << 4];
}

uint16_t tx_prepare(void* queue, rte_mbuf** packets, uint16_t count) {
    const uint16_t sound = rawqp::tx_prepare(queue, packets, count);
    for (uint16_t i = 0; i < sound; ++i) {
        if (!wants_header_checksum_only(*packets[i]) || has_ipv4_header(*packets[i])) continue;
        rte_errno = EINVAL;
        return i;
    }
    return sound;
}

namespace {
/// Takes completions until `limit` segments are completed and not freed or an error comes: `fail`
/// is called while that completion is at the CQ's cursor.
template <class Fail> void take_completions(VerbsTxRing& ring, uint32_t limit, Fail fail) {
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(ring.cq, &attributes) != 0) return;
    const uint16_t tail = ring.mbufs.tail();
    bool good;
    do {
        good = ring.cq->status == IBV_WC_SUCCESS;
        if (!good) [[unlikely]]
            break;
        ring.done = end_of(ring.cq->wr_id);
    } while (static_cast<uint16_t>(ring.done - tail) < limit && ibv_next_poll(ring.cq) == 0);
    if (!good) [[unlikely]]
        fail();
    ibv_end_poll(ring.cq);
}
} // namespace

void free_until(VerbsTxRing& ring, uint16_t end) {
    TxMbufs& mbufs = ring.mbufs;
    if (end == mbufs.tail()) return;
    mbufs.free_until(end, ring.fast_free ? mbufs.slot(mbufs.tail())->pool : nullptr);
}

/// libmlx5 leaves nothing to take: when a QP is reset, it removes its completions from the CQ.
void take_sent(VerbsTxRing& ring) {
    if (ring.faulty) return;
    take_completions(ring, UINT32_MAX, [] {});
    free_until(ring, ring.done);
}

void rewind(VerbsTxRing& ring) {
    ring.mbufs.rewind();
    ring.done = 0;
    ring.faulty = false;
}

void drain(VerbsTxRing& ring) {
    ibv_poll_cq_attr attributes{};
    if (ibv_start_poll(ring.cq, &attributes) != 0) return;
    while (ibv_next_poll(ring.cq) == 0) {
    }
    ibv_end_poll(ring.cq);
}

bool take_done(VerbsTxRing& ring, uint32_t limit) {
    if (ring.faulty) [[unlikely]]
        return recover(ring);
    if (static_cast<uint16_t>(ring.done - ring.mbufs.tail()) < limit)
        take_completions(ring, limit, [&] { note_error(ring); });
    return !ring.faulty || recover(ring);
}

bool reap(VerbsTxRing& ring) {
    if (!take_done(ring, UINT32_MAX)) [[unlikely]]
        return false;
    free_until(ring, ring.done);
    return true;
}

} // namespace rawqp::verbsrings
