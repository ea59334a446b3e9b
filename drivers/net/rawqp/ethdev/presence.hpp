// SPDX-License-Identifier: BSD-3-Clause
// Whether a port is there, for operations that other threads than the application's control thread
// call, telemetry's above all: ethdev does not keep them away from a reset.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace rawqp {

/// One for each port number, which outlives the ports that have it.
class Presence {
  public:
    [[nodiscard]] static Presence& of(const rte_eth_dev& dev) {
        static constinit std::array<Presence, RTE_MAX_ETHPORTS> all{};
        return all[static_cast<size_t>(&dev - rte_eth_devices)]; // dev.data may be gone
    }

    /// While a Visit that was let in lasts, the port stays. It never waits, as who takes the port
    /// away may be waiting for this very thread.
    class Visit {
      public:
        explicit Visit(Presence& presence) : presence_(presence), let_in_(presence.here_) {
            if (!let_in_) return;
            ++presence_.visitors_;
            if (!presence_.here_) leave(); // end() may not have seen this visitor
        }
        ~Visit() {
            if (let_in_) leave();
        }
        Visit(const Visit&) = delete;
        Visit& operator=(const Visit&) = delete;
        explicit operator bool() const { return let_in_; }

      private:
        void leave() {
            let_in_ = false;
            if (--presence_.visitors_ == 0) presence_.visitors_.notify_all();
        }

        Presence& presence_;
        bool let_in_;
    };

    void begin() { here_ = true; }
    /// Lets nobody in any more, and waits until all have left.
    void end() {
        here_ = false;
        while (const uint32_t inside = visitors_)
            visitors_.wait(inside);
    }

  private:
    std::atomic<bool> here_ = false;
    std::atomic<uint32_t> visitors_ = 0;
};

} // namespace rawqp
