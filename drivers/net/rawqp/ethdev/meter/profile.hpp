// SPDX-License-Identifier: BSD-3-Clause
// A meter profile of rte_mtr as the device takes it.
#pragma once

#include "drivers/net/rawqp/ethdev/devx/meter.hpp"
#include "drivers/net/rawqp/ethdev/meter/error.hpp"

namespace rawqp {

/// The device expresses a rate or a size as an eight-bit number and a power of two.
struct Scaled {
    uint8_t mantissa = 0, exponent = 0;
};
/// Nearest to the rate, in tokens a second; within 0.4 % from 128 on.
[[nodiscard]] Scaled scaled_rate(uint64_t rate);
/// At least the size, in tokens, and less than 0.8 % more.
[[nodiscard]] Scaled scaled_size(uint64_t size);
inline constexpr uint64_t kMostRate = 255'000'000'000; ///< a second
inline constexpr uint64_t kMostSize = INT32_MAX;       ///< source: Linux, en/tc/meter.c

/// Tokens count the bytes of IP packets, as in the RFCs, or each packet takes this many, whatever
/// its length. Source: Linux, en/tc/meter.c.
inline constexpr uint64_t kTokensOfPacket = 128;
[[nodiscard]] MeterResult<mlx5::MeterParams> meter_parameters(const rte_mtr_meter_profile& profile);
/// For a disabled meter, and for algorithm RTE_MTR_NONE: all packets are green.
[[nodiscard]] mlx5::MeterParams open_meter();

} // namespace rawqp
