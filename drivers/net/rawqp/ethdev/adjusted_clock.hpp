// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace rawqp {

/// Tells time by another clock, from which it may differ in offset and rate. All times are in
/// nanoseconds.
class AdjustedClock {
  public:
    /// The time when the other clock tells `other`, before or after the last adjustment.
    [[nodiscard]] uint64_t at(uint64_t other) const {
        const auto elapsed = static_cast<int64_t>(other - other_);
        const auto gained = static_cast<int64_t>(static_cast<Wide>(elapsed) * rate_ / kWhole);
        return time_ + static_cast<uint64_t>(elapsed + gained);
    }
    /// `now` is the other clock's time, here and below.
    void set(uint64_t now, uint64_t time) {
        other_ = now;
        time_ = time;
    }
    void adjust(uint64_t now, int64_t delta) { set(now, at(now) + static_cast<uint64_t>(delta)); }
    /// From now on it runs faster than the other clock by `scaled_ppm` / 2^16 millionths.
    void set_rate(uint64_t now, int64_t scaled_ppm) {
        set(now, at(now));
        rate_ = scaled_ppm;
    }

  private:
    __extension__ using Wide = __int128;
    static constexpr int64_t kWhole = int64_t{1'000'000} << 16;
    uint64_t other_ = 0, time_ = 0; ///< at the last adjustment
    int64_t rate_ = 0;
};

} // namespace rawqp
