// SPDX-License-Identifier: BSD-3-Clause
// Queries the control sockets of programs that run on softhca's devices.
#pragma once

#include "common/fd.hpp"
#include "common/result.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <sys/types.h>
#include <vector>

namespace softhca::control {

/// A running program's control socket.
struct Instance {
    pid_t pid = 0; ///< 0: unknown
    std::string socket;
};

/// The instances in one runtime folder.
[[nodiscard]] std::vector<Instance> find_instances(const std::string& runtime_dir);

/// A session with one of them.
class Session {
  public:
    /// ECONNREFUSED, ENOENT: the program has gone. EAGAIN: others wait already, as it does not
    /// answer.
    [[nodiscard]] static Result<Session> open(const Instance& instance);
    /// One request, one answer. EPIPE: the program has ended. EAGAIN: it does not answer within two
    /// seconds, or half a minute while it runs.
    [[nodiscard]] Result<nlohmann::json> ask(const nlohmann::json& request);

  private:
    [[nodiscard]] tl::unexpected<Error> silent() const;
    [[nodiscard]] tl::unexpected<Error> failed(const char* what) const;

    Fd socket_;
    std::string name_;
};

/// A session with a single request.
[[nodiscard]] Result<nlohmann::json> ask(const Instance& instance, const nlohmann::json& request);

} // namespace softhca::control
