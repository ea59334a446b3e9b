// SPDX-License-Identifier: BSD-3-Clause
// The LED of the port, which blinks to be found.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <atomic>

namespace netdev {
class Netdev;
}

namespace rawqp {

/// The kernel has it blink as long as a call lasts: a thread makes one call after the other. The
/// interface outlives it.
class Led {
  public:
    explicit Led(const netdev::Netdev& netdev) : netdev_(netdev) {}
    ~Led() { off(); }
    Led(const Led&) = delete;
    Led& operator=(const Led&) = delete;

    /// Returns after the first second, when it is known that it does blink.
    [[nodiscard]] Result<void> on();
    void off(); ///< takes a second at most

  private:
    static uint32_t blink(void* self);

    const netdev::Netdev& netdev_;
    std::atomic<bool> wanted_ = false;
    rte_thread_t thread_{};
    bool running_ = false;
};

} // namespace rawqp
