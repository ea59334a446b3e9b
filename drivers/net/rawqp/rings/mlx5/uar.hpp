// SPDX-License-Identifier: BSD-3-Clause
// The doorbell register of a send queue.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/mlx5/ordering.hpp"

#include <array>

namespace rawqp::mlx5rings {

/// Each process maps the device's registers at its own addresses, so rings hold the index of a slot
/// in tables that each process fills for itself, for each queue that it may use. The tables are
/// large, but only the pages with slots in use are ever touched.
using RegisterSlot = uint32_t;
[[nodiscard]] constexpr RegisterSlot register_slot(uint16_t port_id, uint16_t queue_id) {
    return uint32_t{port_id} * RTE_MAX_QUEUES_PER_PORT + queue_id;
}
using RegisterTable =
    std::array<uint8_t*, size_t{RTE_MAX_ETHPORTS} * size_t{RTE_MAX_QUEUES_PER_PORT}>;
extern constinit RegisterTable tx_registers; ///< doorbell registers of SQs
extern constinit RegisterTable cq_registers; ///< doorbell pages of Rx CQs, which arming writes to

/// A BlueFlame register is a pair of write-combining buffers used alternately, so that a doorbell
/// never merges with the one before it; without BlueFlame (`size` 0) there is one plain register.
/// The 8-byte doorbell is a single store on every CPU that DPDK runs on: queues that share a
/// register need no lock for it. A queue that has the register to itself may write a whole WQE
/// instead (BlueFlame), which saves the device from reading it.
struct Uar {
    RegisterSlot slot = 0;   ///< of tx_registers
    uint32_t size = 0;       ///< bytes of one buffer
    uint32_t offset = 0;     ///< of the buffer to write next
    uint32_t blue_flame = 0; ///< bytes of the longest WQE to be written whole; 0: none

    /// `wqe` is the last WQE posted: its first 8 bytes, opcode, index, SQ number and size, are the
    /// doorbell. Its doorbell record has been stored.
    void ring(const void* wqe) {
        uint64_t doorbell;
        memcpy(&doorbell, wqe, sizeof doorbell);
        uint8_t* const to = tx_registers[slot] + offset;
        offset ^= size; // before the fences, after which it would be reloaded
        record_before_uar();
        *reinterpret_cast<volatile uint64_t*>(to) = doorbell;
        flush_uar();
    }

    /// The same with the whole WQE, the only one posted: `bytes` is its size, a multiple of a
    /// WQEBB.
    void write(const void* wqe, uint32_t bytes) {
        const auto* const from = static_cast<const uint8_t*>(wqe);
        uint8_t* const to = tx_registers[slot] + offset;
        record_before_uar();
        for (uint32_t at = 0; at < bytes; at += sizeof(uint64_t)) {
            uint64_t word;
            memcpy(&word, from + at, sizeof word);
            *reinterpret_cast<volatile uint64_t*>(to + at) = word;
        }
        flush_uar();
        offset ^= size;
    }
};

} // namespace rawqp::mlx5rings
