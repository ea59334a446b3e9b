// SPDX-License-Identifier: BSD-3-Clause
// What waits in the CQ of a receive ring, for rings that have: cq, may_compress, block, block_left.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/cq.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp::mlx5rings {

/// Completions that were not taken yet, `limit` at most.
template <class Ring> uint32_t completions_waiting(const Ring& ring, uint32_t limit) {
    if (!ring.may_compress) return ring.cq.waiting(limit);
    // Of a block that packets are taken from the rest waits, and what comes behind it.
    const uint32_t left = ring.block_left;
    const uint32_t index = ring.cq.consumer + (left > 0 ? ring.block.count : 0);
    return left >= limit ? limit : left + ring.cq.waiting_in_blocks(index, limit - left);
}

/// eth_get_monitor_addr_t: the queue may sleep until the next entry's owner bit is that of the
/// present lap. Of a block that is being taken from there is more.
template <class Ring> int monitor_completions(const Ring& ring, rte_power_monitor_cond* condition) {
    const Cq& cq = ring.cq;
    condition->addr = &cq.entries[cq.consumer & cq.mask].op_own;
    condition->size = sizeof(Cqe::op_own);
    condition->opaque[0] = (cq.consumer >> cq.log_entries) & mlx5::kOwnerMask;
    condition->opaque[1] = ring.block_left;
    condition->fn = [](uint64_t op_own, const uint64_t* lap_and_left) {
        const bool invalid = op_own >> 4 == static_cast<uint8_t>(CqeOpcode::invalid);
        const bool there = !invalid && (op_own & mlx5::kOwnerMask) == lap_and_left[0];
        return there || lap_and_left[1] != 0 ? -1 : 0;
    };
    return 0;
}

} // namespace rawqp::mlx5rings
