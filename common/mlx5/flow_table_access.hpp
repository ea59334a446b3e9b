// SPDX-License-Identifier: BSD-3-Clause
// Writes of what steering entries refer to, through WQEs of opcode flow_table_access. There is one
// kind here: arguments of header edits. After the control segment, whose immediate is the number of
// the argument, come a segment without meaning and the data.
//
// Source: rdma-core, providers/mlx5/wqe.h (mlx5_wqe_flow_update_ctrl_seg,
// mlx5_wqe_header_modify_argument_update_seg) and dr_send.c.
#pragma once

#include "common/mlx5/formats.hpp"

#include <array>
#include <cstddef>

namespace mlx5 {

/// What is written: the opmod.
inline constexpr uint8_t kWriteEditArgument = 1;

struct WqeEditArgument {
    WqeCtrlSeg ctrl; ///< imm: number of the argument
    std::array<uint8_t, 48> reserved;
    std::array<std::byte, 64> data;
};
static_assert(sizeof(WqeEditArgument) == 128 && offsetof(WqeEditArgument, data) == 64);

} // namespace mlx5
