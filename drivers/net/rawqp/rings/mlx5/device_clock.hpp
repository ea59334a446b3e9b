// SPDX-License-Identifier: BSD-3-Clause
// The device's clock as real time. The kernel keeps a real-time clock for it (the PTP hardware
// clock), and shares with libmlx5 how ticks translate; that changes when the clock is disciplined.
#pragma once

#include "common/verbs/api.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp::mlx5rings {

/// Used by one thread.
class DeviceClock {
  public:
    /// False: kernel or libmlx5 have no conversion for the device.
    [[nodiscard]] bool open(const verbs::Api& api, ibv_context* context) {
        get_info_ = api.mlx5_get_clock_info;
        context_ = context;
        period_ = rte_get_tsc_hz() / kRefreshesPerSecond;
        return get_info_(context_, &info_) == 0;
    }
    /// Once per burst: takes over what the kernel has changed, now and then.
    void refresh() {
        const uint64_t now = rte_rdtsc();
        if (now < next_) return;
        next_ = now + period_;
        mlx5dv_clock_info fresh;
        if (get_info_(context_, &fresh) == 0) info_ = fresh;
    }
    /// Since the epoch of the real-time clock.
    [[nodiscard]] uint64_t nanoseconds(uint64_t ticks) { return mlx5dv_ts_to_ns(&info_, ticks); }

  private:
    static constexpr uint64_t kRefreshesPerSecond = 100;
    decltype(verbs::Api::mlx5_get_clock_info) get_info_ = nullptr;
    ibv_context* context_ = nullptr;
    mlx5dv_clock_info info_{};
    uint64_t period_ = 0, next_ = 0; ///< TSC ticks
};

/// RingFormat's functions for real time.
[[nodiscard]] bool stamps_real_time(const verbs::Api& api, ibv_context* context);
[[nodiscard]] int real_time(const verbs::Api& api, ibv_context* context, uint64_t ticks,
                            uint64_t& nanoseconds);

} // namespace rawqp::mlx5rings
