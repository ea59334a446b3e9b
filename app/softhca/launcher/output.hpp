// SPDX-License-Identifier: BSD-3-Clause
// Output to stdout.
#pragma once

#include "common/output.hpp"

#include <cstdio>
#include <string>

namespace softhca::launcher {

/// Written immediately. False: writing failed, which has been reported on stderr.
inline bool put_out(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return output::flush("softhca");
}

} // namespace softhca::launcher
