// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "app/softhca/core/ring_format.hpp"

namespace softhca::core::mlx5_rings {

[[nodiscard]] const RingFormat& format();

} // namespace softhca::core::mlx5_rings
