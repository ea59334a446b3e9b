// SPDX-License-Identifier: BSD-3-Clause
// A number with its name, for people and for monitoring programs.
#pragma once

#include <cstdint>
#include <vector>

namespace rawqp {

struct Figure {
    const char* name; ///< static storage; letters, digits and underscores
    uint64_t value;
};
using Figures = std::vector<Figure>;

} // namespace rawqp
