// SPDX-License-Identifier: BSD-3-Clause
// WQEs about time and about other queues: what they wait for, and how far they let other queues
// proceed.
#pragma once

#include "app/softhca/core/requests.hpp"
#include "common/mlx5/wait.hpp"

#include <cstddef>
#include <cstring>
#include <span>

namespace softhca::core::mlx5_rings {

/// Of a WQE that waits for the clock.
struct WaitedTime {
    uint64_t value = 0, mask = 0;

    /// Times may be up to half of the mask ahead, and wrap around.
    [[nodiscard]] bool has_come(uint64_t clock) const {
        return ((clock - value) & mask) <= mask / 2;
    }
};

[[nodiscard]] inline SendFault decode_wait_time(std::span<const std::byte> wqe,
                                                SendRequest& request, WaitedTime& time) {
    constexpr size_t kAt = sizeof(mlx5::WqeCtrlSeg);
    mlx5::WqeWaitTimeSeg wait;
    if (wqe.size() < kAt + sizeof wait) return SendFault::bad_ds;
    std::memcpy(&wait, wqe.data() + kAt, sizeof wait);
    if (wait.operation != mlx5::kWaitCyclicSmaller) return SendFault::bad_condition;
    request.kind = SendRequest::Kind::wait_time;
    time = {.value = wait.value, .mask = wait.mask};
    return SendFault::none;
}

/// For a WQE that waits for completions, or lets an SQ proceed.
[[nodiscard]] inline SendFault decode_position(std::span<const std::byte> wqe,
                                               SendRequest::Kind kind, SendRequest& request) {
    constexpr size_t kAt = sizeof(mlx5::WqeCtrlSeg);
    mlx5::WqePositionSeg position;
    if (wqe.size() < kAt + sizeof position) return SendFault::bad_ds;
    std::memcpy(&position, wqe.data() + kAt, sizeof position);
    request.kind = kind;
    request.other = position.number & mlx5::kCqPositionMask; // numbers have as many bits
    request.position = position.position;
    return SendFault::none;
}

/// Whether a CQ with this many completions has reached the position that a WQE waits for; it may be
/// up to half the counter's range beyond.
[[nodiscard]] inline bool is_at(uint32_t completions, uint32_t position) {
    return ((completions - position) & mlx5::kCqPositionMask) <= mlx5::kCqPositionMask / 2;
}

} // namespace softhca::core::mlx5_rings
