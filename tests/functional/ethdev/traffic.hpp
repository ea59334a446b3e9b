// SPDX-License-Identifier: BSD-3-Clause
// Traffic that continues while a test does something else.
#pragma once

#include "tests/functional/ethdev/port.hpp"

#include <atomic>
#include <thread>

namespace test {

/// Sends and receives on queue 0 during its lifetime. In the end it waits until everything is back,
/// because the next test would receive the frames.
class Traffic {
  public:
    Traffic(rte_mempool* pool, Frame content);
    ~Traffic();

    /// From now on, mbufs come from this pool; returns when none comes from another pool any more
    /// and another `count` packets have come back.
    void take_from(rte_mempool* pool, uint64_t count);

  private:
    void receive();
    void send();

    std::atomic<rte_mempool*> pool_;
    Frame content_;
    uint64_t on_the_way_ = 0;
    std::atomic<uint64_t> received_ = 0, rounds_ = 0;
    std::atomic<bool> done_ = false;
    std::thread thread_;
};

} // namespace test
