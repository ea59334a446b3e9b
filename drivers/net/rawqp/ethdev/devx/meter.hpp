// SPDX-License-Identifier: BSD-3-Clause
// Commands about flow meters, which are ASO objects of two meters each (Linux:
// <linux/mlx5/mlx5_ifc.h>, flow_meter_aso_obj, qos_cap). Their content is in common/mlx5/aso.hpp.
#pragma once

#include "common/mlx5/aso.hpp"
#include "drivers/net/rawqp/ethdev/devx/commands.hpp"

namespace rawqp::prm {

inline constexpr uint16_t kQosCap = capability_now(12); ///< MLX5_CAP_QOS

/// The device's quality of service capabilities.
struct QueryQosCapOut {
    AnswerHead head;
    be64 reserved;
    // qos_cap
    uint8_t others[36];
    uint8_t log_meters_at_least; ///< objects made at once, at least
    uint8_t log_meters_at_most;
    uint8_t log_meters; ///< objects in all
    uint8_t rest[4057];
};
static_assert(sizeof(QueryQosCapOut) == 4112 && offsetof(QueryQosCapOut, log_meters) == 54);
inline constexpr uint8_t kLogBits = 0x1f; ///< of each of these

struct CreateMetersIn {
    static constexpr Opcode kOpcode = Opcode::create_general_object;
    static constexpr uint32_t kNumber = kNarrow;
    CommandHead head;
    be32 reserved;
    be32 log_objects; ///< << 24: this many at once, with consecutive numbers
    // flow_meter_aso_obj
    be64 modified;
    be64 reserved_2;
    be32 access_domain; ///< PD of the QPs that may change it
    be32 reserved_3[11];
    mlx5::MeterParams meters[2];
};
static_assert(sizeof(CreateMetersIn) == 144 && offsetof(CreateMetersIn, access_domain) == 32);
static_assert(offsetof(CreateMetersIn, meters) == 80);
inline constexpr uint16_t kMeterType = 0x24; ///< MLX5_GENERAL_OBJECT_TYPES_FLOW_METER_ASO

/// Colors in the register.
inline constexpr uint8_t kColorRed = 0, kColorYellow = 1, kColorGreen = 2;

} // namespace rawqp::prm
