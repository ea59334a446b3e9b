// SPDX-License-Identifier: BSD-3-Clause
// The doorbell register of a send queue.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/ordering.hpp"

namespace rawqp::mlx5rings {

/// A BlueField register is a pair of write-combining buffers used in turn, so that a doorbell never
/// merges with the one before it; without BlueField (`size` 0) there is one plain register. Only
/// the 8-byte doorbell is used, which is a single store on every CPU that DPDK runs on: queues that
/// share a register need no lock.
struct Uar {
    uint8_t* reg = nullptr;
    uint32_t size = 0;   ///< bytes of one buffer
    uint32_t offset = 0; ///< of the buffer to write next

    /// `wqe` is the last WQE posted: its first 8 bytes, opcode, index, SQ number and size, are the
    /// doorbell. Its doorbell record has been stored.
    void ring(const void* wqe) {
        uint64_t doorbell;
        memcpy(&doorbell, wqe, sizeof doorbell);
        record_before_uar();
        *reinterpret_cast<volatile uint64_t*>(reg + offset) = doorbell;
        flush_uar();
        offset ^= size;
    }
};

} // namespace rawqp::mlx5rings
