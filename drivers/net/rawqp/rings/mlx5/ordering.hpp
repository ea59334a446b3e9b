// SPDX-License-Identifier: BSD-3-Clause
// The memory ordering between an lcore and an mlx5 device, with a name for each point.
//
// A burst of sends goes: WQEs -> wqes_before_record -> doorbell record -> record_before_uar ->
// UAR write -> flush_uar. The device may fetch WQEs as soon as it sees either doorbell.
// Received data goes the other way: the device writes the packet, then the CQE, then its owner bit.
#pragma once

#include "common/mlx5/formats.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp::mlx5rings {

/// Ring content (and CQ consumer records) must be visible before the doorbell record that offers
/// it.
inline void wqes_before_record() { rte_io_wmb(); }

/// The UAR page is write-combining: without a fence its store may overtake the record in cached
/// memory.
inline void record_before_uar() { rte_wmb(); }

/// Pushes the doorbell, or the WQE written in its place (BlueFlame), out of the CPU's
/// write-combining buffer now, and keeps two of them from merging into one. The stores of one WQE
/// need no order: a device that gets it in pieces reads it from memory.
inline void flush_uar() { rte_wmb(); }

/// Nothing of a CQE or its packet may be read before the owner bit was seen.
inline void owner_before_content() { rte_io_rmb(); }

/// The byte that the device writes last.
[[nodiscard]] inline uint8_t load_op_own(const mlx5::Cqe& cqe) {
    return __atomic_load_n(&cqe.op_own, __ATOMIC_RELAXED);
}
/// Doorbell records are read by the device at any time: one store, never torn. Released, so that
/// CQEs are read before a consumer record gives them back.
inline void store_record(mlx5::be32& record, uint32_t value) {
    __atomic_store_n(&record.raw, net::to_be(value), __ATOMIC_RELEASE);
}

} // namespace rawqp::mlx5rings
