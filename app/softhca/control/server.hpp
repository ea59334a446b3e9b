// SPDX-License-Identifier: BSD-3-Clause
// Answers `softhca stat`, `dump`, `trace`, `capture`, `link` and `fault` inside the program that
// runs on the devices.
#pragma once

#include "app/softhca/core/engine.hpp"
#include "app/softhca/fault.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <thread>

namespace softhca::control {

/// Requests of a front's own by their "cmd". Called on the server's thread; what they return is the
/// answer. They come before the server's own requests of the same name.
using Commands = std::map<std::string, std::function<nlohmann::json(const nlohmann::json&)>>;

/// Serves the socket at `path` from one thread that sleeps unless asked. Protocol: one JSON
/// object a line, one line back (see doc/softhca.md). Bad input is answered with an error line and
/// harms nobody. Destroy it before the engine.
class ControlServer {
  public:
    /// The faults of a device's commands, which need not be in the engine yet; null: there is no
    /// such device. Called on the server's thread; they live as long as this.
    using FindCommandFaults = std::function<CommandFaults*(const std::string& device)>;

    /// Without `find_command_faults`, faults of commands are refused. `keeper` (may be none) is a
    /// pipe of whoever keeps the devices: the process is killed when its last writer has gone.
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
    Fd listener_;
    Fd stop_;  ///< eventfd that ends the thread
    Fd epoll_; ///< of all of them: poll() takes no more descriptors than the program may open
    Fd keeper_;
    std::thread thread_;
};

} // namespace softhca::control
