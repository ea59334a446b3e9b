// SPDX-License-Identifier: BSD-3-Clause
// Access to ASO objects (advanced steering operations) through send WQEs, and flow meters, which
// are such objects. After the control segment, whose immediate is the object's number, come an ASO
// control segment and, for writes, 64 bytes of data.
//
// Sources: Linux, drivers/net/ethernet/mellanox/mlx5/core/lib/aso.h (segments, operators), en/tc/
// meter.c (masks), <linux/mlx5/mlx5_ifc.h> (flow_meter_parameters, MLX5_FLOW_METER_*); DPDK,
// mlx5_prm.h (mlx5_aso_mtr_dseg). All multi-byte fields are big-endian.
#pragma once

#include "common/mlx5/formats.hpp"

namespace mlx5 {

/// What kind of object a WQE of opcode access_aso is about: its opmod.
inline constexpr uint8_t kAsoPolicer = 2;

/// ASO control segment (mlx5_wqe_aso_ctrl_seg).
struct WqeAsoCtrlSeg {
    be32 va_high;
    be32 va_low_read; ///< kAsoRead: the object's data, as it was, goes to this address
    be32 lkey;
    uint8_t data_mask_mode; ///< kAsoBytewise …
    uint8_t operators;      ///< of condition 0 << 4 | of condition 1
    uint8_t offsets;        ///< of the conditions' data in the object's
    uint8_t joining;        ///< kAsoOr; else both conditions are necessary
    be32 condition0_data, condition0_mask;
    be32 condition1_data, condition1_mask;
    be64 bitwise_data;
    be64 data_mask; ///< bytewise: the highest bit stands for the first byte
};
static_assert(sizeof(WqeAsoCtrlSeg) == 48);
static_assert(offsetof(WqeAsoCtrlSeg, operators) == 13 && offsetof(WqeAsoCtrlSeg, data_mask) == 40);
inline constexpr uint32_t kAsoRead = 1;
inline constexpr uint8_t kAsoBytewise = 1u << 6; ///< writes the data bytes that the mask selects
inline constexpr uint8_t kAsoModeMask = 3u << 6;
inline constexpr uint8_t kAsoOr = 1u << 6;
inline constexpr uint8_t kAsoAlwaysFalse = 0, kAsoAlwaysTrue = 1;
inline constexpr uint32_t kAsoDataBytes = 64;

/// One meter of two (flow_meter_parameters, mlx5_aso_mtr_dseg).
struct MeterParams {
    be32 flags; ///< kMeterValid …
    be32 reserved;
    be32 cbs_cir; ///< exponent << 24 | mantissa << 16 of the size, << 8 and 0 of the rate
    be32 committed_tokens;
    be32 ebs_eir;
    be32 excess_tokens;
    be64 timestamp;
};
static_assert(sizeof(MeterParams) == 32 && 2 * sizeof(MeterParams) == kAsoDataBytes);
inline constexpr uint32_t kMeterValid = 1u << 31;
inline constexpr uint32_t kMeterOverflow = 1u << 30;    ///< bucket_overflow
inline constexpr uint32_t kMeterBothOnGreen = 1u << 27; ///< both_buckets_on_green
inline constexpr unsigned kMeterColorShift = 28;        ///< two bits: start_color
inline constexpr unsigned kMeterModeShift = 24;         ///< two bits: meter_mode

} // namespace mlx5
