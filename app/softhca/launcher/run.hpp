// SPDX-License-Identifier: BSD-3-Clause
// `softhca [options] -- program …`
#pragma once

#include "app/softhca/launcher/options.hpp"

namespace softhca::launcher {

/// Prepares everything, runs the program to its end, cleans up. Returns the exit status; errors are
/// reported on stderr. To be called once, from a process with one thread.
[[nodiscard]] int run(RunCommand command);

} // namespace softhca::launcher
