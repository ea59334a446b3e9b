// SPDX-License-Identifier: BSD-3-Clause
// The list of ring formats.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

#include <span>

namespace rawqp {

/// Best first; the last one (verbs) drives any device.
[[nodiscard]] std::span<const RingFormat* const> ring_formats();

} // namespace rawqp
