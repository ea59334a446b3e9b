// SPDX-License-Identifier: BSD-3-Clause
// When a queue that is paced by requests may execute its next ones.
#pragma once

#include <algorithm>
#include <cstdint>

namespace softhca::core {

/// A number of requests per second, at times that do not drift: fractions of a nanosecond are kept.
/// Times are those of the device's clock.
class RequestPace {
  public:
    RequestPace() = default;
    RequestPace(uint32_t per_second, uint64_t now) : per_second_(per_second), next_(now) {}

    /// False: no pace is set.
    explicit operator bool() const { return per_second_ != 0; }
    [[nodiscard]] uint32_t per_second() const { return per_second_; }

    /// How many requests are due, counting at most a second's worth.
    [[nodiscard]] uint64_t due(uint64_t now) const {
        if (now < next_) return 0;
        const uint64_t since = std::min(now - next_, kSecond);
        return ((since + 1) * per_second_ - rest_ - 1) / kSecond + 1;
    }
    /// When the request that comes `others` requests later is due.
    [[nodiscard]] uint64_t time_after(uint64_t others) const {
        return next_ + (rest_ + others * kSecond) / per_second_;
    }
    /// This many were executed.
    void spend(uint64_t requests) {
        const uint64_t total = rest_ + requests * kSecond;
        next_ += total / per_second_;
        rest_ = total % per_second_;
    }
    /// There was nothing to execute: unused time is lost.
    void idle(uint64_t now) {
        if (next_ >= now) return;
        next_ = now;
        rest_ = 0;
    }

  private:
    static constexpr uint64_t kSecond = 1'000'000'000;

    uint32_t per_second_ = 0;
    uint64_t next_ = 0; ///< the next request's time, without …
    uint64_t rest_ = 0; ///< … this fraction of a nanosecond, in units of 1 / per_second_
};

} // namespace softhca::core
