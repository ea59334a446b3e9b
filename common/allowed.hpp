// SPDX-License-Identifier: BSD-3-Clause
// The values that a device argument may have, as the driver's usage text writes them: "key=<0|1>",
// "key=<1..13>", "key=<string>".
#pragma once

#include "common/result.hpp"

#include <string_view>

/// One of the choices; without choices, a number; without a largest number, any text.
struct Allowed {
    std::string_view choices; ///< "raw|real"
    unsigned min = 0, max = 0;
};

/// A value that its argument allows.
struct AllowedValue {
    std::string_view text;
    unsigned number = 0; ///< the choice's index, if there are choices
};

/// EINVAL: the sentence says what is allowed.
[[nodiscard]] Result<AllowedValue> check_value(std::string_view key, const Allowed& allowed,
                                               std::string_view text);

/// Parses what is between < and > in the usage text.
[[nodiscard]] Allowed parse_allowed(std::string_view text);
