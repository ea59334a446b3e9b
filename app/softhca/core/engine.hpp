// SPDX-License-Identifier: BSD-3-Clause
// Device threads: they poll the devices while busy and sleep when idle.
#pragma once

#include "app/softhca/core/device.hpp"
#include "common/result.hpp"

#include <memory>
#include <vector>

namespace softhca::core {

struct EngineConfig {
    unsigned threads = 1;    ///< device i is served by thread i % threads
    std::vector<int> cpus{}; ///< CPU of each thread; empty: any of the available ones
    /// CPUs that the program may use; empty: all. The creating thread's own mask cannot be used: an
    /// lcore is pinned to its CPU.
    std::vector<int> available{};
};

/// Owns the devices and their threads. A thread starts for its first device, blocks all signals,
/// is named "softhca-N" and sets its own affinity (it must not inherit the caller's). The
/// destructor stops and joins them. Thread-safe.
class Engine {
  public:
    explicit Engine(EngineConfig config);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Starts the threads that this many more devices need, so that adding them cannot fail. It
    /// fails when the user, the container or the address space has no room for another thread.
    [[nodiscard]] Result<void> make_room(size_t devices);
    /// Throws std::system_error where make_room() would fail.
    Device& add(std::unique_ptr<Device> device);
    [[nodiscard]] size_t size() const;
    [[nodiscard]] Device& device(size_t index);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace softhca::core
