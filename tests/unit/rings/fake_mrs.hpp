// SPDX-License-Identifier: BSD-3-Clause
// What rings need from their process, without a device.
#pragma once

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

#include <functional>

namespace rings_test {

inline mlx5dv_clock_info fake_clock{.nsec = 1'000'000,
                                    .last_cycles = 0x8000'0000,
                                    .frac = 3,
                                    .mult = 5,
                                    .shift = 1,
                                    .mask = (uint64_t{1} << 60) - 1};

/// One region that spans all memory unless a test splits it; host of every port while it exists.
class FakeMrs final : public rawqp::RingHost {
  public:
    static constexpr uint32_t kLkey = 0x00a1b200;

    FakeMrs() {
        for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; ++port)
            rawqp::set_ring_host(port, this);
    }

    bool register_address(uintptr_t address, rawqp::MrEntry& entry) override {
        if (refuse) return false;
        if (split != 0 && address < split)
            entry = make_entry(0, split, kLkey);
        else
            entry = make_entry(split, UINTPTR_MAX, split != 0 ? kLkey + 1 : kLkey);
        return true;
    }
    int reset(rawqp::RxRing&) override { return on_reset(); }
    int reset(rawqp::TxRing&) override { return on_reset(); }
    int read_clock(uint64_t& ticks) override {
        ticks = clock_ticks;
        return clock_error;
    }
    int read_clock(mlx5dv_clock_info& info) override {
        info = fake_clock;
        return 0;
    }
    /// Invalidates the caches.
    void unregister() { table.next_generation(); }

    rawqp::MrTable table; ///< empty
    std::function<int()> on_reset;
    bool refuse = false;
    uint64_t clock_ticks = 0; ///< of the device
    int clock_error = 0;
    uintptr_t split = 0; ///< addresses from here on have lkey kLkey + 1

  private:
    static rawqp::MrEntry make_entry(uintptr_t start, uintptr_t end, uint32_t lkey) {
        return {.start = start, .end = end, .lkey = lkey, .lkey_be = net::to_be(lkey)};
    }
};

} // namespace rings_test
