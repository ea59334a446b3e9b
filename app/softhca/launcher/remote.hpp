// SPDX-License-Identifier: BSD-3-Clause
// `softhca stat`, `softhca dump`, `softhca link` and `softhca fault`: questions to programs that
// run on softhca.
#pragma once

#include "app/softhca/control/client.hpp"
#include "app/softhca/launcher/options.hpp"

#include <optional>
#include <string>

namespace softhca::launcher {

/// They return the exit status; answers go to stdout, errors to stderr.
[[nodiscard]] int show(const ShowCommand& command);
[[nodiscard]] int set_link(const LinkCommand& command);
[[nodiscard]] int inject_fault(const FaultCommand& command);

/// A conversation with the one program that has such a device open, or that has any if the name is
/// empty; what is wrong is said on stderr.
[[nodiscard]] std::optional<control::Session> find_owner(const std::string& device,
                                                         const Where& where);

} // namespace softhca::launcher
