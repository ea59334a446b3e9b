// SPDX-License-Identifier: BSD-3-Clause
// `softhca stat`, `softhca dump`, `softhca link` and `softhca fault`: requests to programs that run
// on softhca.
#pragma once

#include "app/softhca/control/client.hpp"
#include "app/softhca/launcher/options.hpp"

#include <optional>
#include <string>

namespace softhca::launcher {

/// These return the exit status; answers go to stdout, errors to stderr.
[[nodiscard]] int show(const ShowCommand& command);
[[nodiscard]] int set_link(const LinkCommand& command);
[[nodiscard]] int inject_fault(const FaultCommand& command);

/// A session with the one program that has this device open, or any device if the name is empty.
/// Errors are reported on stderr.
[[nodiscard]] std::optional<control::Session> find_owner(const std::string& device,
                                                         const Where& where);

} // namespace softhca::launcher
