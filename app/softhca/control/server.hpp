// SPDX-License-Identifier: BSD-3-Clause
// Answers `softhca stat`, `dump`, `trace`, `capture`, `link` and `fault` inside the program that
// runs on the devices.
#pragma once

#include "app/softhca/core/engine.hpp"
#include "app/softhca/fault.hpp"
#include "app/softhca/own_fd.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

namespace softhca::control {

/// A front's own requests by their "cmd". Called on the server's thread; the return value is the
/// answer. They take precedence over the server's own requests of the same name.
using Commands = std::map<std::string, std::function<nlohmann::json(const nlohmann::json&)>>;

/// Serves the socket at `path` from one thread that sleeps until there is a request. Protocol: one
/// JSON object a line, one line back (see doc/softhca.md). Invalid input is answered with an error
/// line and does no harm. Destroy it before the engine.
class ControlServer {
  public:
    /// Finds the faults of a device's commands; the device need not be in the engine yet. Null:
    /// there is no such device. Called on the server's thread; the faults live as long as this.
    using FindCommandFaults = std::function<CommandFaults*(const std::string& device)>;

    /// EADDRINUSE: another process serves that socket. Without `find_command_faults`, command
    /// faults are refused. `keeper` (optional) is a pipe of the process that keeps the devices:
    /// this process is killed when the pipe's last writer has gone.
    [[nodiscard]] static Result<std::unique_ptr<ControlServer>>
    start(const std::string& path, core::Engine& engine, Commands commands = {},
          FindCommandFaults find_command_faults = {}, Fd keeper = {});
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

  private:
    ControlServer(std::string path, core::Engine& engine, Commands commands, Fd listener, Fd stop,
                  Fd epoll, Fd keeper);
    void serve();

    std::string path_;
    core::Engine& engine_;
    Commands commands_;
    OwnFd listener_;
    Fd stop_;  ///< eventfd that ends the thread
    Fd epoll_; ///< of all of them: poll() accepts no more descriptors than the program may open
    Fd keeper_;
    std::thread thread_;
};

} // namespace softhca::control
