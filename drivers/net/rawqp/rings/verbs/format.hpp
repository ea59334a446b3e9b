// SPDX-License-Identifier: BSD-3-Clause
// Portable rings over the verbs data path calls: any provider, and the reference for the others.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp {

extern const RingFormat kVerbsFormat;

} // namespace rawqp
