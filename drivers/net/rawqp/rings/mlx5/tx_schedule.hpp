// SPDX-License-Identifier: BSD-3-Clause
// Packets to be sent at a given time (RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP). A WQE before theirs
// makes the queue wait for the device's clock; what comes after them waits, too, as queues keep
// their order. The device compares so many bits of its clock that half their range is some seconds.
#pragma once

#include "common/mlx5/wait.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_options.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_wqe.hpp"

namespace rawqp::mlx5rings {

/// Whether the packet has a time.
inline bool is_scheduled(const MlxTxRing& ring, const rte_mbuf& packet) {
    return (packet.ol_flags & ring.times.flag) != 0;
}

inline uint64_t time_of(const MlxTxRing& ring, const rte_mbuf& packet) {
    uint64_t time;
    memcpy(&time, reinterpret_cast<const uint8_t*>(&packet) + ring.times.offset, sizeof time);
    return time;
}

/// An estimate of the device's clock between two readings. It serves for counting, and for
/// recognising times that the device would mistake for others; the device itself decides when to
/// send.
inline uint64_t clock_now(MlxTxRing& ring) {
    TxTimes& times = ring.times;
    const uint64_t tsc = rte_rdtsc();
    if (tsc >= times.next_look) [[unlikely]]
        look_at_clock(ring, tsc);
    return times.clock +
           static_cast<uint64_t>(static_cast<double>(tsc - times.clock_tsc) * times.clock_per_tsc);
}

/// Writes a WQE that makes the next packet wait, at the producer index, which has room for it.
/// Writes nothing if the packet's time is so far away that the device would misread it.
inline void write_wait(MlxTxRing& ring, const rte_mbuf& packet) {
    const uint64_t time = time_of(ring, packet);
    const uint64_t ahead = time - clock_now(ring);
    const bool past = static_cast<int64_t>(ahead) < 0;
    const uint64_t away = past ? -ahead : ahead;
    if (past) count_up(ring.counters.past_times);
    if (away > ring.times.mask / 2) [[unlikely]] {
        if (!past) count_up(ring.counters.future_times);
        return;
    }
    constexpr uint32_t kSegments = 1 + sizeof(mlx5::WqeWaitTimeSeg) / mlx5::kSegment;
    uint8_t* const wqe = ring.wqebb(ring.producer);
    auto& wait = *reinterpret_cast<mlx5::WqeWaitTimeSeg*>(wqe + mlx5::kSegment);
    wait = {};
    wait.operation = mlx5::kWaitCyclicSmaller;
    wait.value = time & ring.times.mask;
    wait.mask = ring.times.mask;
    mlx5::WqeCtrlSeg* const control = write_control(ring, wqe, mlx5::WqeOpcode::wait, kSegments);
    control->opmod_idx_opcode =
        uint32_t{mlx5::kWaitTime} << 24 | static_cast<uint32_t>(control->opmod_idx_opcode);
    ring.producer = static_cast<uint16_t>(ring.producer + 1);
}

/// Whether the WQE at `index` waits.
inline bool is_wait(const MlxTxRing& ring, uint16_t index) {
    return ring.opcode(index) == mlx5::WqeOpcode::wait;
}

} // namespace rawqp::mlx5rings
