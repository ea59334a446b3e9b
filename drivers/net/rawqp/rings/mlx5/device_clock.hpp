// SPDX-License-Identifier: BSD-3-Clause
// The device's clock as real time. The kernel keeps a real-time clock for it (the PTP hardware
// clock) and shares with libmlx5 how ticks translate; this changes when the clock is disciplined.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/ring_host.hpp"

namespace rawqp::mlx5rings {

/// Used by one thread.
class DeviceClock {
  public:
    /// False: kernel or libmlx5 have no conversion for the device.
    [[nodiscard]] bool open(const verbs::Api& api, ibv_context* context, uint16_t port_id) {
        port_id_ = port_id;
        period_ = rte_get_tsc_hz() / kRefreshesPerSecond;
        return api.mlx5_get_clock_info(context, &info_) == 0;
    }
    /// Called once per burst: takes over the kernel's changes now and then.
    void refresh() {
        const uint64_t now = rte_rdtsc();
        if (now < next_) return;
        next_ = now + period_;
        mlx5dv_clock_info fresh;
        if (ring_host(port_id_).read_clock(fresh) == 0) info_ = fresh;
    }
    /// Since the epoch of the real-time clock.
    [[nodiscard]] uint64_t nanoseconds(uint64_t ticks) { return mlx5dv_ts_to_ns(&info_, ticks); }

  private:
    static constexpr uint64_t kRefreshesPerSecond = 100;
    uint16_t port_id_ = 0;
    mlx5dv_clock_info info_{};
    uint64_t period_ = 0, next_ = 0; ///< TSC ticks
};

/// RingFormat's functions for real time.
[[nodiscard]] bool stamps_real_time(const verbs::Api& api, ibv_context* context);
[[nodiscard]] int real_time(const verbs::Api& api, ibv_context* context, uint64_t ticks,
                            uint64_t& nanoseconds);

} // namespace rawqp::mlx5rings
