// SPDX-License-Identifier: BSD-3-Clause
// The LED of the port, which blinks to be found.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <atomic>
#include <functional>

namespace rawqp {

/// Makes it blink for a second. EBUSY: somebody else does.
using BlinkOnce = std::function<Result<void>()>;

/// The kernel makes it blink as long as a call lasts: a thread makes one call after the other.
class Led {
  public:
    explicit Led(BlinkOnce blink_once) : blink_once_(std::move(blink_once)) {}
    ~Led() { off(); }
    Led(const Led&) = delete;
    Led& operator=(const Led&) = delete;

    /// Returns after the first second, when the LED is known to blink. Does nothing if it is on
    /// already, unless it has stopped since.
    [[nodiscard]] Result<void> on();
    void off(); ///< takes a second at most

  private:
    static uint32_t blink(void* self);

    BlinkOnce blink_once_;
    std::atomic<bool> wanted_ = false;
    std::atomic<bool> failed_ = false; ///< the thread has ended by itself
    rte_thread_t thread_{};
    bool running_ = false; ///< there is a thread to join
};

} // namespace rawqp
