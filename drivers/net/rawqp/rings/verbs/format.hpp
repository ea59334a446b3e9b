// SPDX-License-Identifier: BSD-3-Clause
// Portable rings over the verbs data path calls: for any provider that has work queues and extended
// CQs, and the reference for the other formats.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp {

extern const RingFormat kVerbsFormat;

} // namespace rawqp
