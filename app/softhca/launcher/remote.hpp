// SPDX-License-Identifier: BSD-3-Clause
// `softhca stat` and `softhca link`: questions to programs that run on softhca.
#pragma once

#include "app/softhca/launcher/options.hpp"

namespace softhca::launcher {

/// Both return the exit status; answers go to stdout, errors to stderr.
[[nodiscard]] int show_stats(const StatCommand& command);
[[nodiscard]] int set_link(const LinkCommand& command);

} // namespace softhca::launcher
