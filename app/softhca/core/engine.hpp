// SPDX-License-Identifier: BSD-3-Clause
// Device threads: they poll the devices while busy and sleep when idle.
#pragma once

#include "app/softhca/core/device.hpp"

#include <memory>
#include <vector>

namespace softhca::core {

struct EngineConfig {
    unsigned threads = 1;    ///< device i is served by thread i % threads
    std::vector<int> cpus{}; ///< CPU of each thread; empty: any CPU that the process may use
};

/// Owns the devices and their threads. Threads start with the engine, block all signals, are named
/// "softhca-N" and set their own affinity (they must not inherit the caller's). The destructor
/// stops and joins them.
class Engine {
  public:
    Engine(EngineConfig config, std::vector<std::unique_ptr<Device>> devices);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] size_t size() const;
    [[nodiscard]] Device& device(size_t index);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace softhca::core
