// SPDX-License-Identifier: BSD-3-Clause
// Output of a walk along the chain, for people and for programs.
#pragma once

#include "common/diagnosis/checks.hpp"

#include <string>

namespace doctor {

/// The lines of one finding; `first` marks the first broken link.
[[nodiscard]] std::string text_of(const diagnosis::Finding& finding, bool first);

/// The last line: what is broken, or how to start a program.
[[nodiscard]] std::string verdict_of(const diagnosis::Case& subject,
                                     const std::vector<diagnosis::Finding>& findings);

/// {"device", "port", "healthy", "first_broken", "findings": [{"id", "about", "state", …}]}.
[[nodiscard]] std::string json_of(const diagnosis::Case& subject,
                                  const std::vector<diagnosis::Finding>& findings);

[[nodiscard]] bool is_broken(const diagnosis::Finding& finding);

} // namespace doctor
