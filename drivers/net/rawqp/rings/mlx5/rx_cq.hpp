// SPDX-License-Identifier: BSD-3-Clause
// What all mapped receive rings do with their CQ. A ring type derives from RxRing and has: cq,
// cq_arm, may_compress, block; retry and faulty for its error path.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/cq.hpp"
#include "drivers/net/rawqp/rings/mlx5/syndrome.hpp"
#include "drivers/net/rawqp/rings/recovery.hpp"

namespace rawqp::mlx5rings {

/// Completions not taken yet, `limit` at most.
template <class Ring> uint32_t completions_waiting(const Ring& ring, uint32_t limit) {
    if (!ring.may_compress) return ring.cq.waiting(limit);
    // The rest of a partly taken block waits, and what comes after it.
    const uint32_t left = ring.cq.packets_left();
    const uint32_t index = ring.cq.consumer + (ring.cq.block_left > 0 ? ring.block.count : 0);
    return left >= limit ? limit : left + ring.cq.waiting_in_blocks(index, limit - left);
}

/// RingFormat::rx_monitor_addr: the queue may sleep until the next entry's owner bit is that of the
/// present lap, but not while it has a partly taken block, nor while it lacks all buffers: only its
/// bursts look for new ones.
template <class Ring> int rx_monitor_addr(void* queue, rte_power_monitor_cond* condition) {
    const auto& ring = *static_cast<const Ring*>(queue);
    const Cq& cq = ring.cq;
    condition->addr = &cq.entries[cq.consumer & cq.mask].op_own;
    condition->size = sizeof(Cqe::op_own);
    condition->opaque[0] = (cq.consumer >> cq.log_entries) & mlx5::kOwnerMask;
    condition->opaque[1] = ring.cq.block_left != 0 || ring.posted() == 0;
    condition->fn = [](uint64_t op_own, const uint64_t* lap_and_wakeful) {
        const bool invalid = op_own >> 4 == static_cast<uint8_t>(CqeOpcode::invalid);
        const bool there = !invalid && (op_own & mlx5::kOwnerMask) == lap_and_wakeful[0];
        return there || lap_and_wakeful[1] != 0 ? -1 : 0;
    };
    return 0;
}

/// RingFormat's functions for Rx interrupts.
template <class Ring> int rx_arm(RxRing& base) {
    auto& ring = static_cast<Ring&>(base);
    ring.cq_arm.request(ring.cq);
    return 0;
}
template <class Ring> void rx_event_taken(RxRing& base) {
    ++static_cast<Ring&>(base).cq_arm.events;
}

/// The CQE at the consumer index, which is an error.
template <class Ring> const ErrorCqe& error_cqe(const Ring& ring) {
    owner_before_content();
    return reinterpret_cast<const ErrorCqe&>(ring.cq.at(ring.cq.consumer));
}

/// Counts the packet of the CQE at the consumer index, which is an error, once. The ring is faulty
/// from here on, until its buffers are posted anew.
template <class Ring> void note_error(Ring& ring) {
    if (ring.faulty) return;
    // A flushed WQE held no packet: the queue went to error by other means.
    const auto syndrome = static_cast<mlx5::CqeSyndrome>(error_cqe(ring).syndrome);
    count_up(ring.counters.errors, syndrome != mlx5::CqeSyndrome::flushed);
    ring.faulty = true;
    rte_compiler_barrier();
}

/// Resets the WQ of a faulty ring. False: not now, or it failed; the next burst tries again.
template <class Ring> bool reset_after_error(Ring& ring) {
    if (!ring.retry.try_pass() || ring_host(ring.port_id).reset(ring) != 0) return false;
    // The CQE is gone if a process was killed during the recovery.
    const bool there = ring.cq.state(ring.cq.consumer) != CqeState::empty;
    log_recovery(ring, there ? status_of(error_cqe(ring)) : IBV_WC_GENERAL_ERR,
                 there ? error_cqe(ring).vendor_syndrome : 0u);
    return true;
}

} // namespace rawqp::mlx5rings
