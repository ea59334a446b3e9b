// SPDX-License-Identifier: BSD-3-Clause
// Answers `softhca stat` and `softhca link` inside the program that runs on the devices.
#pragma once

#include "app/softhca/core/engine.hpp"
#include "app/softhca/fd.hpp"
#include "common/result.hpp"

#include <memory>
#include <string>
#include <thread>

namespace softhca::control {

/// Serves `<runtime_dir>/<pid>.sock` from one thread that sleeps unless asked. Protocol: one JSON
/// object a line, one line back (see doc/softhca.md). Bad input is answered with an error line and
/// harms nobody. Destroy it before the engine.
class ControlServer {
  public:
    [[nodiscard]] static Result<std::unique_ptr<ControlServer>>
    start(const std::string& runtime_dir, core::Engine& engine);
    ~ControlServer();
    ControlServer(const ControlServer&) = delete;
    ControlServer& operator=(const ControlServer&) = delete;

  private:
    ControlServer(std::string path, core::Engine& engine, Fd listener, Fd stop);
    void serve();

    std::string path_;
    core::Engine& engine_;
    Fd listener_;
    Fd stop_; ///< eventfd that ends the thread
    std::thread thread_;
};

} // namespace softhca::control
