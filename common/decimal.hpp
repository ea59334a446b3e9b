// SPDX-License-Identifier: BSD-3-Clause
// Numbers on command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>

/// For Option::transform(): a number from `least` to `most`, decimal also where it begins with
/// zeros. CLI11 by itself reads 010 as 8 and refuses 08.
template <class Number> [[nodiscard]] CLI::Validator decimal(Number least, Number most) {
    const CLI::Range range(least, most);
    return CLI::Validator(
        [range](std::string& text) {
            if (text.find_first_not_of("0123456789") == text.npos && !text.empty())
                text.erase(0, std::min(text.find_first_not_of('0'), text.size() - 1));
            return range(text);
        },
        range.get_description());
}
