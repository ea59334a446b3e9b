// SPDX-License-Identifier: BSD-3-Clause
// Meters in the mlx5 family's format, a pair in 64 bytes, and the WQEs that read and write them.
#pragma once

#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/requests.hpp"
#include "common/mlx5/aso.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace softhca::core::mlx5_rings {

using MeterBytes = std::array<std::byte, mlx5::kAsoDataBytes>;

/// Decodes written meters.
[[nodiscard]] std::array<MeterAttr, 2> read_meters(std::span<const std::byte> bytes);
/// Encodes meters as a program would write them, with the levels of their buckets.
[[nodiscard]] MeterBytes write_meters(const std::array<Meter, 2>& meters);

/// Writes the bytes of `data` selected by `mask`, from its highest bit on. A meter of which any
/// byte is written restarts with full buckets: drivers leave tokens and time to the device.
void update_meters(std::array<Meter, 2>& meters, std::span<const std::byte> data, uint64_t mask,
                   uint64_t now);

/// For a WQE that accesses an ASO object: the request, and the mask for update_meters(), whose data
/// is aso_data().
[[nodiscard]] SendFault decode_aso(std::span<const std::byte> wqe, SendRequest& request,
                                   uint64_t& mask);
[[nodiscard]] std::span<const std::byte> aso_data(std::span<const std::byte> wqe);

} // namespace softhca::core::mlx5_rings
