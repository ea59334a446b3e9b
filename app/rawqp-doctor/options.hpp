// SPDX-License-Identifier: BSD-3-Clause
// The command line of rawqp-doctor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace doctor {

struct Options {
    std::string device, iface;
    uint8_t port = 1;
    std::string program, plugin, devargs;
    unsigned watch_seconds = 0; ///< 0: counters are not watched
    bool json = false;
};

/// Empty if the program is to end at once, with `status`: after --help or an error.
[[nodiscard]] std::optional<Options> parse_options(int argc, char** argv, int& status);

} // namespace doctor
