// SPDX-License-Identifier: BSD-3-Clause
// Rings mapped by mlx5dv_init_obj: WQEs written and CQEs read directly.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp {

extern const RingFormat kMlx5Format;

} // namespace rawqp
