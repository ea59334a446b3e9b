// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/devargs.hpp"

namespace rawqp {

/// Errors name the key, the value and what is allowed.
[[nodiscard]] Result<Devargs> parse_devargs(const char* args);

} // namespace rawqp
