// SPDX-License-Identifier: BSD-3-Clause
// Answers `softhca stat`, `link` and `fault` inside the program that runs on the devices.
#pragma once

#include "app/softhca/core/engine.hpp"
#include "app/softhca/fault.hpp"
#include "app/softhca/fd.hpp"
#include "common/result.hpp"

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace softhca::control {

/// Serves `<runtime_dir>/<pid>.sock` from one thread that sleeps unless asked. Protocol: one JSON
/// object a line, one line back (see doc/softhca.md). Bad input is answered with an error line and
/// harms nobody. Destroy it before the engine.
class ControlServer {
  public:
    /// Makes a command of the engine's device `index` fail; null: none fails any more. Called on
    /// the server's thread.
    using SetCommandFault = std::function<void(size_t index, const CommandFault* fault)>;

    /// Without `set_command_fault`, faults of commands are refused.
    [[nodiscard]] static Result<std::unique_ptr<ControlServer>>
    start(const std::string& runtime_dir, core::Engine& engine,
          SetCommandFault set_command_fault = {});
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

  private:
    ControlServer(std::string path, core::Engine& engine, SetCommandFault set_command_fault,
                  Fd listener, Fd stop);
    void serve();

    std::string path_;
    core::Engine& engine_;
    SetCommandFault set_command_fault_;
    Fd listener_;
    Fd stop_; ///< eventfd that ends the thread
    std::thread thread_;
};

} // namespace softhca::control
