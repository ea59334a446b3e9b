// SPDX-License-Identifier: BSD-3-Clause
// Doorbell records of the mlx5 format as doorbells; null makes none.
#pragma once

#include "app/softhca/core/doorbell.hpp"
#include "common/mlx5/formats.hpp"

namespace softhca::core::mlx5_rings {

[[nodiscard]] inline Doorbell send_doorbell(mlx5::QueueDoorbell* record) {
    return record ? Doorbell::in(*record, record->send.raw) : Doorbell();
}
[[nodiscard]] inline Doorbell receive_doorbell(mlx5::QueueDoorbell* record) {
    return record ? Doorbell::in(*record, record->receive.raw) : Doorbell();
}
[[nodiscard]] inline CqDoorbell cq_doorbell(mlx5::CqDoorbell* record) {
    if (!record) return {};
    return {Doorbell::in(*record, record->consumer.raw), Doorbell::in(*record, record->arm.raw)};
}

} // namespace softhca::core::mlx5_rings
