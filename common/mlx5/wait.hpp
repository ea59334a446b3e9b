// SPDX-License-Identifier: BSD-3-Clause
// Send WQEs that hold up their queue until something has happened, and those that let another queue
// proceed. After the control segment comes one segment that says what to wait for, or how far to
// proceed.
//
// Sources: DPDK, mlx5_prm.h (mlx5_wqe_wseg, mlx5_wqe_qseg, MLX5_OPC_MOD_WAIT_*, MLX5_WAIT_COND_*)
// and what mlx5_tx.h and mlx5_txpp.c write into them; libmlx5 of MLNX_OFED (set_wait_en_seg), where
// both positions are counts. All multi-byte fields are big-endian.
#pragma once

#include "common/mlx5/formats.hpp"

namespace mlx5 {

/// What a WQE of opcode wait waits for: its opmod.
inline constexpr uint8_t kWaitCompletions = 0; ///< of a CQ: WqePositionSeg
inline constexpr uint8_t kWaitTime = 2;        ///< WqeWaitTimeSeg

/// Waits until the device's clock has reached a time (mlx5_wqe_wseg).
struct WqeWaitTimeSeg {
    be32 operation; ///< kWaitCyclicSmaller
    be32 lkey;      ///< 0, as is the address: for WQEs that wait for data
    be32 va_high;
    be32 va_low;
    be64 value;
    be64 mask; ///< bits of value and clock that are compared
};
static_assert(sizeof(WqeWaitTimeSeg) == 32 && offsetof(WqeWaitTimeSeg, value) == 16);
/// The value is smaller than the clock, where half of the masked range is ahead and half behind.
inline constexpr uint32_t kWaitCyclicSmaller = 5;

/// A position in another queue (mlx5_wqe_qseg): how many completions a CQ must have had, or how
/// many WQEBBs an SQ may have executed, each since its start.
struct WqePositionSeg {
    be32 reserved[2];
    be32 position; ///< CQ: 24 bits; SQ: 16 bits
    be32 number;
};
static_assert(sizeof(WqePositionSeg) == 16 && offsetof(WqePositionSeg, number) == 12);
inline constexpr uint32_t kCqPositionMask = 0xffffff;

} // namespace mlx5
