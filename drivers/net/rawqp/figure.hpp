// SPDX-License-Identifier: BSD-3-Clause
// A number by its name, for people and for programs that watch.
#pragma once

#include <cstdint>
#include <vector>

namespace rawqp {

struct Figure {
    const char* name; ///< of static storage; letters, digits and underscores
    uint64_t value;
};
using Figures = std::vector<Figure>;

} // namespace rawqp
