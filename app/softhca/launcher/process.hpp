// SPDX-License-Identifier: BSD-3-Clause
// Starting the program, passing signals on to it, waiting for the end of all its processes.
#pragma once

#include "common/result.hpp"

#include <csignal>
#include <string>
#include <sys/types.h>
#include <vector>

namespace softhca::launcher {

/// While it exists, the signals that end or steer programs are held back; wait_for() passes them
/// on. So none can end the launcher before it has cleaned up.
class SignalForwarding {
  public:
    SignalForwarding();
    ~SignalForwarding();
    SignalForwarding(const SignalForwarding&) = delete;
    SignalForwarding& operator=(const SignalForwarding&) = delete;

    /// Waits until `first` and all processes that it left behind (daemons) have ended. Returns the
    /// exit status of the first, or 128 + the signal that ended it; if that is 0, what the last one
    /// to end has instead.
    [[nodiscard]] int wait_for_all(pid_t first) const;
    /// For the child: signals as they were before.
    void restore_in_child() const;

  private:
    sigset_t held_;
    sigset_t before_;
};

/// Starts the program (found by PATH). It is killed when this process dies. Whoever loses its
/// parent among its processes becomes a child of this one. An error has the errno of exec.
[[nodiscard]] Result<pid_t> spawn(const std::vector<std::string>& program,
                                  const SignalForwarding& signals);

} // namespace softhca::launcher
