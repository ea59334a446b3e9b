// SPDX-License-Identifier: BSD-3-Clause
// Checks every second which rules have aged, as long as there are rules with action age.
#pragma once

#include <atomic>
#include <cstdint>

namespace rawqp {

struct Port;

/// Destroyed before the port's rules, without Port::control held: applications ask for aged rules
/// in the event that it raises.
class AgeTimer {
  public:
    explicit AgeTimer(Port& port) : port_(port) {}
    ~AgeTimer();
    AgeTimer(const AgeTimer&) = delete;
    AgeTimer& operator=(const AgeTimer&) = delete;

    /// Called when there are rules to check. Any thread.
    void arm();

  private:
    static void on_tick(void* self);
    void tick();
    void set(uint64_t microseconds);

    Port& port_;
    std::atomic<bool> armed_ = false;
};

} // namespace rawqp
