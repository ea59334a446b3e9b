// SPDX-License-Identifier: BSD-3-Clause
// Looks every second which rules have aged, as long as there are such with action age.
#pragma once

#include <atomic>
#include <cstdint>

namespace rawqp {

struct Port;

/// Goes before the port's rules, with Port::control not held: applications ask for aged rules in
/// the event that it raises.
class AgeTimer {
  public:
    explicit AgeTimer(Port& port) : port_(port) {}
    ~AgeTimer();
    AgeTimer(const AgeTimer&) = delete;
    AgeTimer& operator=(const AgeTimer&) = delete;

    /// There are rules to look at. Any thread.
    void arm();

  private:
    static void on_tick(void* self);
    void tick();
    void set(uint64_t microseconds);

    Port& port_;
    std::atomic<bool> armed_ = false;
};

} // namespace rawqp
