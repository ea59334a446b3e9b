// SPDX-License-Identifier: BSD-3-Clause
// `softhca stat`, `softhca link` and `softhca fault`: questions to programs that run on softhca.
#pragma once

#include "app/softhca/launcher/options.hpp"

namespace softhca::launcher {

/// They return the exit status; answers go to stdout, errors to stderr.
[[nodiscard]] int show_stats(const StatCommand& command);
[[nodiscard]] int set_link(const LinkCommand& command);
[[nodiscard]] int inject_fault(const FaultCommand& command);

} // namespace softhca::launcher
