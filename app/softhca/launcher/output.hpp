// SPDX-License-Identifier: BSD-3-Clause
// Output to stdout.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <string>

namespace softhca::launcher {

/// Written immediately. False: writing failed, which has been reported on stderr.
inline bool put_out(const std::string& text) {
    const bool all = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (all && std::fflush(stdout) == 0) return true;
    fmt::print(stderr, "softhca: cannot write to stdout ({}); is there room left?\n",
               std::strerror(errno));
    return false;
}

} // namespace softhca::launcher
