// SPDX-License-Identifier: BSD-3-Clause
// Traffic that goes on while a test does something else.
#pragma once

#include "tests/functional/ethdev/port.hpp"

#include <atomic>
#include <thread>

namespace test {

/// Sends and receives on queue 0 for as long as it lives. All is back when it ends, or the frames
/// would come to the next test.
class Traffic {
  public:
    Traffic(rte_mempool* pool, Frame content);
    ~Traffic();

    /// From now on mbufs are taken from this pool; returns when none is taken from another any more
    /// and `count` packets more have come back.
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
