// SPDX-License-Identifier: BSD-3-Clause
// The command line of `softhca`.
#pragma once

#include "app/softhca/config.hpp"

#include <string>
#include <sys/types.h>
#include <variant>
#include <vector>

namespace softhca::launcher {

/// Exit statuses of the launcher itself; otherwise it exits as the program did. 125 to 127 are as
/// in timeout(1) and env(1).
enum ExitStatus : int {
    kExitFailed = 1,    ///< stat, link …: it could not be done
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
/// Selects running programs.
struct Where {
    pid_t pid = 0;        ///< 0: all of this user
    std::string socket{}; ///< the control socket of one, at any path; empty: by `pid`
};
/// softhca stat, softhca dump
struct ShowCommand {
    std::string what; ///< the request to the control socket
    bool json = false;
    Where where;
};
/// softhca trace
struct TraceCommand {
    std::string device; ///< empty: all of the program
    uint64_t count = 0; ///< number of packets; 0: until interrupted
    bool json = false;
    Where where;
};
/// softhca capture DEVICE FILE
struct CaptureCommand {
    std::string device;
    std::string file; ///< "-": stdout
    uint64_t count = 0;
    Where where;
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

/// The command to execute, or the exit status after help was requested or an error was reported.
using Options = std::variant<int, RunCommand, ShowCommand, TraceCommand, CaptureCommand,
                             LinkCommand, FaultCommand>;
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

} // namespace softhca::launcher
