// SPDX-License-Identifier: BSD-3-Clause
// Other processes of this machine, as far as /proc shows them to this one.
#pragma once

#include <string>
#include <vector>

namespace processes {

struct Process {
    std::string name;
    std::string pid;
    [[nodiscard]] std::string text() const { return name + " (pid " + pid + ")"; }
};

/// Those that have a file open, named as the links in /proc/PID/fd name it: "/dev/null",
/// "socket:[12]".
[[nodiscard]] std::vector<Process> with_open(const std::string& file,
                                             const std::string& proc = "/proc");

} // namespace processes
