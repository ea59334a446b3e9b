// SPDX-License-Identifier: BSD-3-Clause
#include "common/output.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace output {

bool flush(const char* program) {
    static bool said = false;
    const bool flushed = std::fflush(stdout) == 0;
    if (flushed && !std::ferror(stdout)) return true;
    if (!std::exchange(said, true)) {
        // An earlier attempt may have failed, and forgotten why.
        const std::string reason = errno ? std::string(" (") + std::strerror(errno) + ")" : "";
        std::fprintf(stderr, "%s: cannot write to stdout%s; is there room left?\n", program,
                     reason.c_str());
    }
    return false;
}

} // namespace output
