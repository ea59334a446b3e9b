// SPDX-License-Identifier: BSD-3-Clause
// What rings need from their process, without a device.
#pragma once

#include "common/net/endian.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/mr_table.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

#include <functional>
#include <memory>
#include <tuple>

namespace rings_test {

inline mlx5dv_clock_info fake_clock{.nsec = 1'000'000,
                                    .last_cycles = 0x8000'0000,
                                    .frac = 3,
                                    .mult = 5,
                                    .shift = 1,
                                    .mask = (uint64_t{1} << 60) - 1};

/// One region that spans all memory unless a test splits it. Provides the host of every port.
class FakeMrs {
  public:
    static constexpr uint32_t kLkey = 0x00a1b200;

    FakeMrs() { start_process(); }

    /// What follows is done by a process that has just started. Whatever the former one was doing
    /// with its hosts, it has left them for good.
    void start_process() {
        std::ignore = host_.release();
        host_ = std::make_unique<Host>(*this);
        for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; ++port)
            rawqp::set_ring_host(port, host_.get());
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
    struct Host final : rawqp::RingHost {
        explicit Host(const FakeMrs& owner) : mrs(owner) {}

        bool register_address(uintptr_t address, rawqp::MrEntry& entry) override {
            if (mrs.refuse) return false;
            if (mrs.split != 0 && address < mrs.split)
                entry = make_entry(0, mrs.split, kLkey);
            else
                entry = make_entry(mrs.split, UINTPTR_MAX, mrs.split != 0 ? kLkey + 1 : kLkey);
            return true;
        }
        int reset(rawqp::RxRing&) override { return mrs.on_reset(); }
        int reset(rawqp::TxRing&) override { return mrs.on_reset(); }
        int read_clock(uint64_t& ticks) override {
            ticks = mrs.clock_ticks;
            return mrs.clock_error;
        }
        int read_clock(mlx5dv_clock_info& info) override {
            info = fake_clock;
            return 0;
        }

        const FakeMrs& mrs;
    };
    static rawqp::MrEntry make_entry(uintptr_t start, uintptr_t end, uint32_t lkey) {
        return {.start = start, .end = end, .lkey = lkey, .lkey_be = net::to_be(lkey)};
    }

    std::unique_ptr<Host> host_;
};

} // namespace rings_test
