// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/age_timer.hpp"

#include "drivers/net/rawqp/ethdev/flow/age.hpp"
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {
namespace {
constexpr uint64_t kTickMicroseconds = 1'000'000, kSoonMicroseconds = 20'000;
}

AgeTimer::~AgeTimer() { rte_eal_alarm_cancel(on_tick, this); }

void AgeTimer::arm() {
    if (!armed_.exchange(true)) set(kTickMicroseconds);
}

void AgeTimer::set(uint64_t microseconds) {
    if (const int error = rte_eal_alarm_set(microseconds, on_tick, this); error != 0) {
        armed_ = false;
        RAWQP_LOG(ERR, "%s: cannot look for aged flow rules: %s: those with action age stay young",
                  port_.name.c_str(), rte_strerror(-error));
    }
}

void AgeTimer::on_tick(void* self) { static_cast<AgeTimer*>(self)->tick(); }

void AgeTimer::tick() {
    {
        // Control threads may hold it for long, and the alarm thread does not serve this port
        // alone.
        const std::unique_lock lock(port_.control, std::try_to_lock);
        if (!lock) return set(kSoonMicroseconds);
        const bool news = port_.flows->look_at_ages(FlowAge::Clock::now());
        armed_ = port_.flows->has_ages();
        if (armed_) set(kTickMicroseconds);
        if (!news) return;
    }
    rte_eth_dev_callback_process(port_.dev, RTE_ETH_EVENT_FLOW_AGED, nullptr);
}

} // namespace rawqp
