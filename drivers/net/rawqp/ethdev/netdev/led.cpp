// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/netdev/led.hpp"

#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

namespace rawqp {

Result<void> Led::on() {
    if (running_ && !failed_) return {};
    off();
    if (Result<void> first = blink_once_(); !first) return first;
    wanted_ = true;
    failed_ = false;
    if (const int error = compat::create_control_thread<blink>(thread_, "rawqp-led", this))
        return fail(error, "cannot start the thread that has the LED blink: {}",
                    rte_strerror(error));
    running_ = true;
    return {};
}

void Led::off() {
    wanted_ = false;
    if (running_) rte_thread_join(thread_, nullptr);
    running_ = false;
}

uint32_t Led::blink(void* self) {
    constexpr unsigned kBusyMicroseconds = 50'000;
    Led& led = *static_cast<Led*>(self);
    while (led.wanted_) {
        const Result<void> done = led.blink_once_();
        if (done) continue;
        if (done.error().code != EBUSY) {
            RAWQP_LOG(ERR, "the LED blinks no more: %s", done.error().what.c_str());
            led.failed_ = true;
            break;
        }
        rte_delay_us_sleep(kBusyMicroseconds); // somebody else makes it blink
    }
    return 0;
}

int led_on(rte_eth_dev* dev) noexcept {
    Port& port = Port::of(dev);
    if (!port.led) port.led = std::make_unique<Led>([&port] { return port.netdev.identify(1); });
    return report(port.name, port.led->on());
}

int led_off(rte_eth_dev* dev) noexcept {
    Port& port = Port::of(dev);
    if (port.led) port.led->off();
    return 0;
}

} // namespace rawqp
