// SPDX-License-Identifier: BSD-3-Clause
// A send queue over verbs calls: ibv_wr_* where the provider has them, else ibv_post_send.
//
// A burst is sent in runs: packets are first described, as long as they can be sent, and then
// posted with one doorbell. So the last request of a run is known when it is written: only that one
// requests a completion.
#pragma once

#include "drivers/net/rawqp/rings/recovery.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp::verbsrings {

/// Packets of a run, at most.
inline constexpr uint16_t kTxRun = 64;

/// Where a packet's header is assembled when it is spread over mbufs.
using TsoHeader = std::array<uint8_t, kMaxTsoHeader>;

/// What is known of a packet that is about to be posted.
struct TxRequest {
    uint16_t start; ///< TxMbufs position of its first segment
    uint8_t sges;
    uint8_t header; ///< bytes to be repeated before each segment (TSO); 0: none
};
static_assert(kMaxTsoHeader <= UINT8_MAX && kMaxTxSegments <= UINT8_MAX);

/// The wr_id of a request tells where its mbufs start and end in TxMbufs.
struct VerbsTxRing : TxRing {
    ibv_cq_ex* cq = nullptr;
    ibv_qp_ex* qp_ex = nullptr; ///< used if there is one,
    ibv_qp* qp = nullptr;       ///< else this one
    TxMbufs mbufs;
    uint16_t done = 0;      ///< TxMbufs position: completed, perhaps not freed yet
    bool fast_free = false; ///< whole_packets_of_one_pool()
    bool faulty = false;    ///< an error completion was taken, the reset is due
    uint16_t inline_bytes = 0;
    uint64_t no_inline_flag = 0;     ///< see no_inline_flag() in tx_common.hpp
    TxRequest* requests = nullptr;   ///< kTxRun, written anew for each run
    ibv_sge* sges = nullptr;         ///< see sges_of()
    ibv_send_wr* send_wrs = nullptr; ///< kTxRun, each linked to the next; for ibv_post_send only
    MrCache mrs;

    // Control and error path.
    RetryGate retry;
    unsigned error_status = 0; ///< ibv_wc_status
    unsigned error_vendor = 0;
    SocketArray<TxRequest> request_memory;
    SocketArray<ibv_send_wr> send_wr_memory;
    SocketArray<ibv_sge> sge_memory;
    SocketArray<TsoHeader> headers; ///< one for each request, on queues with TSO
};

constexpr uint64_t pack_positions(uint16_t start, uint16_t end) {
    return uint64_t{start} << 16 | end;
}
constexpr uint16_t start_of(uint64_t wr_id) { return static_cast<uint16_t>(wr_id >> 16); }
constexpr uint16_t end_of(uint64_t wr_id) { return static_cast<uint16_t>(wr_id); }

/// How the variants of the send burst differ; chosen once per port.
struct TxOptions {
    bool multi_segment; ///< packets in several mbufs
    bool checksum;      ///< checksums may be requested
    bool tso;           ///< segmentation may be requested
    bool inlining;      ///< short packets are copied into the WQE
    bool work_requests; ///< by ibv_wr_*
};

/// Whether everything about a packet's request is known except its one SGE.
template <TxOptions O> constexpr bool kPlain = !O.multi_segment && !O.tso;

/// The SGEs of request `index`.
template <TxOptions O> inline ibv_sge* sges_of(const VerbsTxRing& ring, uint16_t index) {
    return &ring.sges[kPlain<O> ? index : size_t{index} * ring.max_segments];
}

TxQpNeeds tx_needs(const TxSpec& spec);
Result<TxRing*> tx_create(const TxSpec& spec);
void tx_start(TxRing& base);
Burst<eth_tx_burst_t> tx_burst(const TxSpec& spec);
/// As rawqp::tx_prepare; it also refuses packets without the header whose checksum is computed
/// here.
uint16_t tx_prepare(void* queue, rte_mbuf** packets, uint16_t count);

// What the templates of tx_common.hpp need.
bool take_done(VerbsTxRing& ring, uint32_t limit);
void free_until(VerbsTxRing& ring, uint16_t end);
bool reap(VerbsTxRing& ring);
inline void ask(VerbsTxRing&) {} // every run has requested one
void take_sent(VerbsTxRing& ring);
void rewind(VerbsTxRing& ring);
void drain(VerbsTxRing& ring);
inline void forget_keys(VerbsTxRing& ring) { ring.mrs.clear(); }

} // namespace rawqp::verbsrings
