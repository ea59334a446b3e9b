// SPDX-License-Identifier: BSD-3-Clause
// A send queue on mapped mlx5 rings: an SQ of 64-byte basic blocks (WQEBBs) and its CQ.
//
// A burst requests a completion, on its last WQE, when kAskEvery segments were sent since the last
// request: its CQE says that everything before it is done. So small bursts do not each cost a CQE,
// for which the device crosses the bus, and mbufs are freed kAskEvery at a time. To learn about the
// last packets, as a stop does, call ask(). What the completion of such a WQE covers is noted in
// its TxMark, which the WQE index in the CQE leads to. How much a burst may take is known at its
// start, as long as no WQE takes more WQEBBs than it has mbuf segments (TxBatch::room); variants
// with longer WQEs (TxOptions::long_wqes) check free_wqebbs() as well.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/rings/mlx5/cq.hpp"
#include "drivers/net/rawqp/rings/mlx5/uar.hpp"
#include "drivers/net/rawqp/rings/recovery.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

namespace rawqp::mlx5rings {

/// Bytes of each packet to be inlined in the modes l2, ip and tcp.
inline constexpr uint32_t kInlineHeader = RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;
inline constexpr uint32_t kInlineIp = kInlineHeader + sizeof(rte_ipv6_hdr);
inline constexpr uint32_t kInlineTcp = kInlineIp + sizeof(rte_tcp_hdr);

/// Segments sent without a request, at most; on small rings a quarter of the ring, so that a burst
/// only ever waits for segments that have a request.
inline constexpr uint16_t kAskEvery = 32;

/// Positions just after a WQE that requests a completion, and how the mbufs before them are freed.
///
/// A process may be killed anywhere in a burst and another go on with the ring. So a mark is
/// written before its WQE requests the completion, and only the CQE itself leads to its mark.
struct TxMark {
    rte_mempool* pool; ///< the mbufs go back there unread; null: each is looked at
    uint16_t segment;  ///< TxMbufs position
    uint16_t wqebb;    ///< SQ producer index
};

/// The cache line that writing WQEs works on; the lkey cache continues past its end with what is
/// needed where packets of several regions alternate.
struct alignas(RTE_CACHE_LINE_SIZE) TxPostLine {
    uint8_t* sq = nullptr;
    uint32_t wqebb_mask = 0;
    uint32_t sqn_shifted = 0; ///< SQ number << 8, as the control segment holds it
    uint16_t producer = 0;    ///< WQEBBs posted; counts without end, as the device does
    bool was_mixed = false;   ///< the last burst had mbufs to be looked at when they are freed
    MrCache mrs;
};
static_assert(offsetof(TxPostLine, mrs) + MrCache::kHotBytes <= RTE_CACHE_LINE_SIZE);

/// The cache line that completions work on.
struct alignas(RTE_CACHE_LINE_SIZE) TxCompletionLine {
    Cq cq;
    TxMbufs mbufs;
    TxMark* marks = nullptr; ///< by WQEBB, for WQEs that request a completion
};
static_assert(sizeof(TxCompletionLine) == RTE_CACHE_LINE_SIZE);

/// A packet whose send time the application wants to know.
struct TxStamped {
    uint32_t cqe = 0; ///< its completion is at this CQ entry or a later one
    uint16_t wqe = 0; ///< its WQE's index
};

/// For bursts that send at a given time: see tx_schedule.hpp.
struct TxTimes {
    uint64_t flag = 0;   ///< of mbufs that have a time
    uint16_t offset = 0; ///< of it in the mbuf
    uint64_t mask = 0;   ///< bits of the device's clock that are compared
    double clock_per_tsc = 0;
    uint64_t clock = 0, clock_tsc = 0; ///< the device's when last read, and when that was
    uint64_t next_look = 0;            ///< TSC ticks, as clock_tsc
};

struct MlxTxRing : TxRing, TxPostLine, TxCompletionLine {
    // Used once per burst: one cache line, with the pool seen last.
    mlx5::be32* doorbell = nullptr; ///< send counter of the doorbell record
    Uar uar;
    uint16_t completed = 0;              ///< WQEBBs completed
    uint16_t inline_bytes = 0;           ///< packets of up to this many bytes are inlined
    uint16_t min_inline = 0;             ///< bytes of each packet that the device wants inlined
    uint16_t done = 0;                   ///< TxMbufs position: completed, perhaps not freed yet
    uint16_t asked = 0;                  ///< TxMbufs position: those before have a request
    uint16_t ask_every = kAskEvery;      ///< segments
    rte_mempool* done_pool = nullptr;    ///< TxMark::pool of what is completed but not freed
    rte_mempool* unasked_pool = nullptr; ///< the same of what has no request; null if all has one
    uint64_t no_inline_flag = 0; ///< mbuf flag by which applications forbid it, if they use one
    PoolKeys pools;

    // For bursts that look for metadata.
    uint64_t metadata_flag = 0;   ///< of mbufs that have some
    uint16_t metadata_offset = 0; ///< in the mbuf

    TxTimes times;

    // For bursts that note such packets: see tx_stamp.hpp.
    TxStamped stamped;      ///< the last one
    bool stamp_due = false; ///< its stamp has not been taken yet

    // Control and error path.
    RetryGate retry;
    bool faulty = false; ///< the losses of an error CQE are counted, the reset is due
    SocketArray<TxMark> mark_memory;
    uint64_t register_page = 0;   ///< mmap offset of the doorbell register's page in the device
    uint32_t register_offset = 0; ///< of the register in its page

    /// The mark of the WQE at WQEBB `index`.
    [[nodiscard]] TxMark& mark(uint16_t index) const { return marks[index & wqebb_mask]; }
    /// The opcode of the WQE at `index`, as written.
    [[nodiscard]] mlx5::WqeOpcode opcode(uint16_t index) const {
        const auto& control = *reinterpret_cast<const mlx5::WqeCtrlSeg*>(wqebb(index));
        return static_cast<mlx5::WqeOpcode>(control.opmod_idx_opcode & 0xff);
    }
    [[nodiscard]] uint8_t* wqebb(uint16_t index) const {
        return sq + (index & wqebb_mask) * size_t{mlx5::kWqebb};
    }
    /// The index of a WQE in the ring, within one lap.
    [[nodiscard]] uint16_t index_of(const void* wqe) const {
        return static_cast<uint16_t>((static_cast<const uint8_t*>(wqe) - sq) / mlx5::kWqebb);
    }
    [[nodiscard]] uint32_t free_wqebbs() const {
        return wqebb_mask + 1 - static_cast<uint16_t>(producer - completed);
    }
    /// Makes the last WQE written, this one, report everything before it. `pool`: see TxMark.
    void ask_by(mlx5::WqeCtrlSeg* wqe, rte_mempool* pool) {
        mark(index_of(wqe)) = {.pool = pool, .segment = mbufs.head(), .wqebb = producer};
        rte_compiler_barrier(); // see TxMark
        wqe->fm_ce_se = mlx5::kCqUpdate;
        asked = mbufs.head();
    }
};

/// Bytes of each packet that the device wants inlined.
[[nodiscard]] uint16_t min_inline_bytes(const TxSpec& spec);
void tx_settle(TxSpec& spec);
TxQpNeeds tx_needs(const TxSpec& spec);
Result<void> tx_map(const TxRing& ring, int fd);
void tx_unmap(uint16_t port_id, uint16_t queue_id);
Result<TxRing*> tx_create(const TxSpec& spec);
void tx_start(TxRing& base);

/// Updates what the ring knows of the device's clock; `tsc` is now.
void look_at_clock(MlxTxRing& ring, uint64_t tsc);

/// Size of the WQE at `index`, in 16-byte segments.
[[nodiscard]] uint32_t wqe_segments(const MlxTxRing& ring, uint16_t index);
/// Whether the WQE at `index` requests a completion.
[[nodiscard]] bool asks_for_completion(const MlxTxRing& ring, uint16_t index);
/// Makes what was sent without a request complete, too, with a WQE that does nothing else; does
/// nothing if there is no room for it yet.
void ask(MlxTxRing& ring);

/// The burst function for the spec's options and the device's abilities.
Burst<eth_tx_burst_t> tx_burst(const TxSpec& spec);

// What the templates of tx_common.hpp need.
inline bool take_done(MlxTxRing& ring, uint32_t limit);
inline void free_until(MlxTxRing& ring, uint16_t end);
inline bool reap(MlxTxRing& ring);
void take_sent(MlxTxRing& ring);
void rewind(MlxTxRing& ring);
void drain(MlxTxRing& ring);
void forget_keys(MlxTxRing& ring);

/// Cold: the CQE at the consumer index is an error. Counts the packets from the failing WQE on as
/// lost, has the QP reset and rewinds the ring. False when the reset failed: the CQE stays, so that
/// the next burst comes back here.
bool recover(MlxTxRing& ring);

/// Frees what is completed before position `end`, and gives the entries of all that is completed
/// back to the CQ.
inline void free_until(MlxTxRing& ring, uint16_t end) {
    if (end == ring.mbufs.tail()) return;
    ring.mbufs.free_until(end, ring.done_pool);
    ring.cq.publish_consumer();
}
inline void free_done(MlxTxRing& ring) { free_until(ring, ring.done); }

/// Takes completions until `limit` segments are completed and not freed. Segments of different
/// pools are freed separately. False while the queue is in error.
inline bool take_completions(MlxTxRing& ring, uint32_t limit) {
    Cq& cq = ring.cq;
    const uint16_t tail = ring.mbufs.tail();
    do {
        const Cqe& cqe = cq.at(cq.consumer);
        const uint8_t op_own = load_op_own(cqe);
        if ((op_own & Cq::kOpcodeAndOwner) != cq.expected(CqeOpcode::req, cq.consumer)) {
            if (cq.classify(op_own, cq.consumer) == CqeState::empty) return true;
            free_done(ring);
            return recover(ring);
        }
        owner_before_content();
        const TxMark& mark = ring.mark(cqe.wqe_counter);
        if (ring.done != tail && mark.pool != ring.done_pool) free_done(ring);
        // If this process is killed before the last of these stores, another one takes the same
        // completion again.
        ring.done_pool = mark.pool;
        rte_compiler_barrier();
        ring.completed = mark.wqebb;
        ring.done = mark.segment;
        rte_compiler_barrier();
        ++cq.consumer;
    } while (static_cast<uint16_t>(ring.done - tail) < limit);
    return true;
}

/// See tx_common.hpp.
inline bool take_done(MlxTxRing& ring, uint32_t limit) {
    const bool enough = static_cast<uint16_t>(ring.done - ring.mbufs.tail()) >= limit;
    return enough || take_completions(ring, limit);
}

/// See tx_common.hpp. Most small bursts find no completion.
inline bool reap(MlxTxRing& ring) {
    const Cq& cq = ring.cq;
    const bool none = cq.is_empty(load_op_own(cq.at(cq.consumer)), cq.consumer);
    // A clean-up with a limit, or a killed burst, may have left some.
    if (none && ring.done == ring.mbufs.tail()) return true;
    if (!take_completions(ring, UINT32_MAX)) return false;
    free_done(ring);
    return true;
}

} // namespace rawqp::mlx5rings
