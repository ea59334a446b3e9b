// SPDX-License-Identifier: BSD-3-Clause
// What mapped receive rings do alike with their CQ. A ring type derives from RxRing and has: cq,
// cq_arm, may_compress, block; retry and faulty for its error path.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/cq.hpp"
#include "drivers/net/rawqp/rings/mlx5/syndrome.hpp"
#include "drivers/net/rawqp/rings/recovery.hpp"

namespace rawqp::mlx5rings {

/// Completions that were not taken yet, `limit` at most.
template <class Ring> uint32_t completions_waiting(const Ring& ring, uint32_t limit) {
    if (!ring.may_compress) return ring.cq.waiting(limit);
    // Of a block that packets are taken from the rest waits, and what comes after it.
    const uint32_t left = ring.cq.packets_left();
    const uint32_t index = ring.cq.consumer + (ring.cq.block_left > 0 ? ring.block.count : 0);
    return left >= limit ? limit : left + ring.cq.waiting_in_blocks(index, limit - left);
}

/// RingFormat::rx_monitor_addr: the queue may sleep until the next entry's owner bit is that of the
/// present lap. Of a block that is being taken from there is more.
template <class Ring> int rx_monitor_addr(void* queue, rte_power_monitor_cond* condition) {
    const auto& ring = *static_cast<const Ring*>(queue);
    const Cq& cq = ring.cq;
    condition->addr = &cq.entries[cq.consumer & cq.mask].op_own;
    condition->size = sizeof(Cqe::op_own);
    condition->opaque[0] = (cq.consumer >> cq.log_entries) & mlx5::kOwnerMask;
    condition->opaque[1] = ring.cq.block_left;
    condition->fn = [](uint64_t op_own, const uint64_t* lap_and_left) {
        const bool invalid = op_own >> 4 == static_cast<uint8_t>(CqeOpcode::invalid);
        const bool there = !invalid && (op_own & mlx5::kOwnerMask) == lap_and_left[0];
        return there || lap_and_left[1] != 0 ? -1 : 0;
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

/// The CQE at the consumer index is an error: counts the packet, once, and has the WQ reset. False:
/// not now, or it failed; the CQE stays, so that the next burst meets it again.
template <class Ring> bool reset_after_error(Ring& ring) {
    const auto& cqe = reinterpret_cast<const ErrorCqe&>(ring.cq.at(ring.cq.consumer));
    owner_before_content();
    if (!ring.faulty) {
        // A flushed WQE held no packet: the queue went to error by other means.
        const auto syndrome = static_cast<mlx5::CqeSyndrome>(cqe.syndrome);
        count_up(ring.counters.errors, syndrome != mlx5::CqeSyndrome::flushed);
        ring.faulty = true;
    }
    if (!ring.retry.try_pass() || ring_host(ring.port_id).reset(ring) != 0) return false;
    log_recovery(ring, status_of(cqe), cqe.vendor_syndrome);
    return true;
}

} // namespace rawqp::mlx5rings
