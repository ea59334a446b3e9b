// SPDX-License-Identifier: BSD-3-Clause
// What the control server and its clients share: where the sockets are. Requests are one JSON
// object a line:
//   {"cmd":"stat"}                                     -> {"pid":…,"program":…,"devices":[…]}
//   {"cmd":"dump"}                                     -> likewise, with every object
//   {"cmd":"link","device":"mlx5_0","up":false}        -> {"ok":true}
//   {"cmd":"fault","device":"mlx5_0","fault":"…"}      -> {"ok":true}; see fault.hpp;
//     "none" also answers what was still to fail: {"ok":true,"ended":"reg_mr:ENOMEM:1"}
//   {"cmd":"watch","device":"mlx5_0","steps":true,"count":5} -> {"ok":true}: from now on, until the
//     client hangs up, the packets of that device (all, if none is named) are kept for
//   {"cmd":"next"}                                     -> {"packets":[…],"lost":0,"done":false}
// and {"error":"…"} for what cannot be done.
#pragma once

#include "common/result.hpp"

#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

namespace softhca::control {

/// `nth`: of the processes that have this PID, each in a namespace of its own.
[[nodiscard]] inline std::string socket_path(const std::string& runtime_dir, pid_t pid,
                                             unsigned nth = 0) {
    return nth == 0 ? fmt::format("{}/{}.sock", runtime_dir, pid)
                    : fmt::format("{}/{}-{}.sock", runtime_dir, pid, nth);
}

[[nodiscard]] inline Result<sockaddr_un> socket_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return fail(ENAMETOOLONG, "{}: too long for a socket; use a path of at most {} bytes", path,
                    sizeof address.sun_path - 1);
    std::memcpy(address.sun_path, path.data(), path.size());
    return address;
}

/// Makes room for a socket at the path: removes the one that an earlier process left there.
/// Anything else may be valuable: it stays, and is an error (EEXIST).
[[nodiscard]] inline Result<void> remove_old_socket(const std::string& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) < 0) return {}; // bind() tells what is wrong, if anything
    if (!S_ISSOCK(status.st_mode))
        return fail(EEXIST,
                    "{}: cannot make a socket there ({}): nothing but a socket may be at the path; "
                    "use another path, or remove what is there",
                    path, std::strerror(EEXIST));
    unlink(path.c_str());
    return {};
}

} // namespace softhca::control
