// SPDX-License-Identifier: BSD-3-Clause
// Meters as the mlx5 family has them, a pair in 64 bytes, and the WQEs that read and write them.
#pragma once

#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/requests.hpp"
#include "common/mlx5/aso.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace softhca::core::mlx5_rings {

using MeterBytes = std::array<std::byte, mlx5::kAsoDataBytes>;

/// What somebody has written there.
[[nodiscard]] std::array<MeterAttr, 2> read_meters(std::span<const std::byte> bytes);
/// What somebody would have to write for meters like these, and how full their buckets are.
[[nodiscard]] MeterBytes write_meters(const std::array<Meter, 2>& meters);

/// Writes the bytes of `data` that `mask` has, from its highest bit on. A meter of which a byte is
/// written starts anew, with full buckets: drivers leave tokens and time to the device.
void update_meters(std::array<Meter, 2>& meters, std::span<const std::byte> data, uint64_t mask,
                   uint64_t now);

/// Of a WQE that accesses an ASO object: what is asked for, and the mask for update_meters(), whose
/// data is aso_data().
[[nodiscard]] SendFault decode_aso(std::span<const std::byte> wqe, SendRequest& request,
                                   uint64_t& mask);
[[nodiscard]] std::span<const std::byte> aso_data(std::span<const std::byte> wqe);

} // namespace softhca::core::mlx5_rings
