// SPDX-License-Identifier: BSD-3-Clause
// What the device can do with its clock, and what kind of clock that is.
//
// Sources: DPDK, mlx5_prm.h (cmd_hca_cap: access_register_user, wait_on_time; register_mtutc;
// MLX5_CMD_OP_ACCESS_REGISTER_USER); Linux, <linux/mlx5/mlx5_ifc.h> (access_register_in_bits).
#pragma once

#include "drivers/net/rawqp/ethdev/devx/commands.hpp"

namespace rawqp::prm {

inline constexpr uint16_t kGeneralCap = capability_now(0); ///< MLX5_CAP_GENERAL

struct QueryGeneralCapOut {
    AnswerHead head;
    be64 reserved;
    // cmd_hca_cap
    uint8_t others[26];
    uint8_t registers; ///< kAccessRegisterUser
    uint8_t others_2[182];
    uint8_t waits; ///< kWaitOnTime
    uint8_t rest[3886];
};
static_assert(sizeof(QueryGeneralCapOut) == 4112);
static_assert(offsetof(QueryGeneralCapOut, registers) == 16 + 0xd0 / 8);
static_assert(offsetof(QueryGeneralCapOut, waits) == 16 + 0x688 / 8);
inline constexpr uint8_t kAccessRegisterUser = 1u << 5; ///< bit 0xd2 of cmd_hca_cap
inline constexpr uint8_t kWaitOnTime = 1u << 3;         ///< bit 0x68c

/// MTUTC: what CQEs are stamped by.
struct ReadClockModeIn {
    static constexpr Opcode kOpcode = Opcode::access_register_user;
    CommandHead head;     ///< kReadRegister
    be32 register_number; ///< kMtutc
    be32 argument;
    be32 data[8];
};
static_assert(sizeof(ReadClockModeIn) == 48);
inline constexpr uint16_t kReadRegister = 1;
inline constexpr uint32_t kMtutc = 0x9055;

struct ReadClockModeOut {
    AnswerHead head;
    be64 reserved;
    be32 mode; ///< in the highest two bits: 0 = a free-running timer
    be32 rest[7];
};
static_assert(sizeof(ReadClockModeOut) == 48);
inline constexpr unsigned kClockModeShift = 30;

} // namespace rawqp::prm
