// SPDX-License-Identifier: BSD-3-Clause
// Starts the program, passes signals on to it, waits for all its processes to end.
#pragma once

#include "common/result.hpp"

#include <csignal>
#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

namespace softhca::launcher {

/// While it exists, the signals that end or control programs are blocked; wait_for_all() passes
/// them on. So none can end the launcher before it has cleaned up.
class SignalForwarding {
  public:
    SignalForwarding();
    ~SignalForwarding();
    SignalForwarding(const SignalForwarding&) = delete;
    SignalForwarding& operator=(const SignalForwarding&) = delete;

    /// Waits until `first` and all processes that it left behind (daemons) have ended. Returns the
    /// exit status of the first, or 128 + the signal that ended it; if that is 0, the status of the
    /// last one to end.
    [[nodiscard]] int wait_for_all(pid_t first) const;
    /// For the child: restores the previous signal mask.
    void restore_in_child() const;

  private:
    sigset_t held_;
    sigset_t before_;
};

/// Starts the program (found by PATH). It is killed when this process dies. Any of its processes
/// that loses its parent becomes a child of this one. An error has the errno of exec.
[[nodiscard]] Result<pid_t> spawn(const std::vector<std::string>& program,
                                  const SignalForwarding& signals);

/// The folder of this executable: what belongs to it is found from there.
[[nodiscard]] Result<std::filesystem::path> own_folder();

} // namespace softhca::launcher
