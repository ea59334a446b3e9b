// SPDX-License-Identifier: BSD-3-Clause
// The floor's loop over one queue's rings, wherever they are: see floor.hpp.
#pragma once

#include "app/rawqp-perf/distance.hpp"
#include "app/rawqp-perf/ring_array.hpp"
#include "common/mlx5/formats.hpp"

#include <infiniband/mlx5dv.h>
#include <optional>
#include <vector>

namespace perf {

/// How far ahead of their use the floor prefetches lines, in packets.
struct FloorAhead {
    uint16_t rx, tx; ///< of CQEs and mbufs, of mbufs to send; 0: not at all
    /// WQEs are written at the end of a burst. Their lines are prefetched for writing at its
    /// beginning: those of this many packets later; empty: no prefetch.
    std::optional<uint16_t> claim;

    /// The best values found (`scripts/bench --only floor`).
    static FloorAhead best(Distance distance);
};

struct FloorCompletions {
    mlx5::Cqe* cqes = nullptr;
    mlx5::CqDoorbell* doorbell = nullptr;
    uint32_t mask = 0, log_size = 0;
    uint32_t consumer = 0;

    void map(const mlx5dv_cq& cq);
    /// The next CQE, if there is one.
    [[nodiscard]] const mlx5::Cqe* peek() const;
};
struct alignas(RTE_CACHE_LINE_SIZE) FloorRx {
    FloorCompletions cq;
    mlx5::WqeDataSeg* wqes = nullptr;
    uint64_t wqe_head = 0; ///< what precedes the address, identical in all WQEs
    mlx5::QueueDoorbell* doorbell = nullptr;
    uint32_t mask = 0;
    uint16_t producer = 0;
    RingArray<rte_mbuf*> mbufs; ///< of each WQE

    /// Writes the WQEs of all mbufs and announces them to the device. Throws where the CPU is too
    /// old for the floor.
    void post_all(uint32_t lkey);
};
struct alignas(RTE_CACHE_LINE_SIZE) FloorTx {
    FloorCompletions cq;
    uint8_t* wqes = nullptr;
    mlx5::QueueDoorbell* doorbell = nullptr;
    volatile uint64_t* uar = nullptr;
    uint32_t mask = 0; ///< WQEBBs
    uint32_t qp_number = 0, lkey = 0;
    uint16_t producer = 0;
    uint32_t mbuf_mask = 0;
    uint16_t sent = 0, freed = 0; ///< mbufs
    RingArray<rte_mbuf*> mbufs;   ///< in the hands of the device, and returned by it
    RingArray<uint16_t> ends;     ///< of each WQE: `sent` after its last packet
};

/// A burst from the device, and one to it. `stack`: free mbufs, the hottest on top.
uint16_t receive(FloorRx& queue, std::vector<rte_mbuf*>& stack, const FloorAhead& distances,
                 rte_mbuf** mbufs, uint16_t count);
uint16_t send(FloorTx& queue, std::vector<rte_mbuf*>& stack, const FloorAhead& distances,
              rte_mbuf** mbufs, uint16_t count);

} // namespace perf
