// SPDX-License-Identifier: BSD-3-Clause
// The command line of `softhca`.
#pragma once

#include "app/softhca/config.hpp"

#include <string>
#include <sys/types.h>
#include <variant>
#include <vector>

namespace softhca::launcher {

/// Exit statuses of the launcher itself; otherwise it exits as the program did. 125 to 127 are
/// those of timeout(1) and env(1).
enum ExitStatus : int {
    kExitFailed = 1,    ///< stat, link, fault: it could not be done
    kExitUsage = 2,     ///< the command line or configuration is wrong
    kExitNoSetup = 125, ///< ports, runtime folder … could not be prepared
    kExitNotExecutable = 126,
    kExitNotFound = 127,
};

/// softhca [options] -- program …
struct RunCommand {
    Config config; ///< complete() and with valid wires
    std::vector<std::string> program;
};
/// softhca stat
struct StatCommand {
    bool json = false;
    pid_t pid = 0; ///< 0: every instance
};
/// softhca link DEVICE up|down
struct LinkCommand {
    std::string device;
    bool up = true;
    pid_t pid = 0;
};

/// softhca fault DEVICE WHAT
struct FaultCommand {
    std::string device;
    std::string fault; ///< a valid one, see fault.hpp
    pid_t pid = 0;
};

/// What to do, or the exit status after help was asked for or an error was reported.
using Options = std::variant<int, RunCommand, StatCommand, LinkCommand, FaultCommand>;
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

} // namespace softhca::launcher
