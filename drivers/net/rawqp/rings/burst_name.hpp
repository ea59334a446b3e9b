// SPDX-License-Identifier: BSD-3-Clause
// Composes the texts of burst_mode_get from a burst function's template options.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace rawqp {

using BurstName = std::array<char, 96>; ///< zero-terminated

struct BurstWord {
    bool on;
    std::string_view text;
};

/// "base" followed by ", text" for each word that is on. A text too long does not compile.
template <size_t N>
constexpr BurstName burst_name(std::string_view base, const BurstWord (&words)[N]) {
    BurstName name{};
    size_t at = 0;
    for (const char c : base)
        name.at(at++) = c;
    for (const BurstWord& word : words) {
        if (!word.on) continue;
        name.at(at++) = ',';
        name.at(at++) = ' ';
        for (const char c : word.text)
            name.at(at++) = c;
    }
    name.at(at) = '\0';
    return name;
}

} // namespace rawqp
