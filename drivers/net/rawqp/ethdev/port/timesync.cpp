// SPDX-License-Identifier: BSD-3-Clause
// rte_eth_timesync_*: when PTP messages were received and sent, by the device's clock. Applications
// adjust a clock of the port, which follows the device's: that one belongs to the kernel and to
// whoever disciplines it there.
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

namespace rawqp {
namespace {

Result<uint64_t> nanoseconds(const Port& port, uint64_t ticks) {
    uint64_t time = 0;
    if (const int error = port.format->real_time(*port.api, port.context.get(), ticks, time))
        return fail(error, "timesync: the device's clock cannot be converted: {}", strerror(error));
    return time;
}

/// Converts what Rx stamps and read_clock() report: see the devarg rx_timestamp.
Result<uint64_t> of_stamp(const Port& port, uint64_t stamp) {
    return port.devargs.real_time ? Result<uint64_t>(stamp) : nanoseconds(port, stamp);
}

/// The device's clock.
Result<uint64_t> now(const Port& port) {
    uint64_t clock = 0;
    if (const int error = -read_clock(port.dev, &clock))
        return fail(error, "timesync: the device's clock cannot be read: {}", strerror(error));
    return of_stamp(port, clock);
}

Result<void> check(const Port& port) {
    const RingFormat& format = *port.format;
    if (format.tx_stamping == nullptr)
        return fail(ENOTSUP, "timesync: datapath={} does not tell when packets are sent",
                    format.name);
    if (!format.stamps_real_time(*port.api, port.context.get()))
        return fail(ENOTSUP, "timesync: kernel or libmlx5 do not tell how the device's clock "
                             "translates to real time");
    for (const auto& queue : port.rx_queues)
        if (queue && (queue->spec.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) == 0)
            return fail(EINVAL,
                        "timesync: Rx queue {} was set up without RTE_ETH_RX_OFFLOAD_TIMESTAMP",
                        queue->spec.queue_id);
    return {};
}

/// Makes the queues do what the port wants: see report_as_others().
void turn(Port& port, bool on) {
    port.timesync = on;
    for (const auto& queue : port.tx_queues)
        if (queue) queue->ring->stamps = on;
    for (const auto& queue : port.rx_queues) {
        if (!queue) continue;
        __atomic_store_n(&queue->ring->tell_ptp, on, __ATOMIC_RELAXED);
        if (on) __atomic_store_n(&queue->ring->tell_all, true, __ATOMIC_RELEASE);
    }
    if (!port.started()) return; // start chooses the bursts
    choose_tx_burst(port);
    __atomic_store_n(&rte_eth_fp_ops[port.dev->data->port_id].tx_pkt_burst, port.dev->tx_pkt_burst,
                     __ATOMIC_RELEASE);
}

Result<void> check_on(const Port& port) {
    if (port.timesync) return {};
    return fail(EINVAL, "timesync: it is not enabled: call rte_eth_timesync_enable");
}

/// Calls `adjust` with the device's time.
template <class Adjust> int adjust_at_now(rte_eth_dev* dev, const Adjust& adjust) {
    Port& port = Port::of(dev);
    if (const Result<void> on = check_on(port); !on) return report(port.name, on.error());
    const Result<uint64_t> time = now(port);
    if (!time) return report(port.name, time.error());
    adjust(port.clock, *time);
    return 0;
}

int tell(const Port& port, Result<uint64_t> device_time, timespec* time) {
    if (!device_time) return report(port.name, device_time.error());
    *time = rte_ns_to_timespec(port.clock.at(*device_time));
    return 0;
}

} // namespace

void choose_tx_burst(Port& port) {
    rte_eth_dev& dev = *port.dev;
    dev.tx_pkt_burst = port.tx_burst;
    if (port.timesync && port.tx_burst != nullptr)
        dev.tx_pkt_burst = port.format->tx_stamping(dev.data->port_id, port.tx_burst);
}

int timesync_enable(rte_eth_dev* dev) noexcept {
    Port& port = Port::of(dev);
    if (const Result<void> can = check(port); !can) return report(port.name, can.error());
    turn(port, true);
    return 0;
}

int timesync_disable(rte_eth_dev* dev) noexcept {
    turn(Port::of(dev), false);
    return 0;
}

// These two are polled: the lack of a stamp is not a failure to report.
int timesync_read_rx_timestamp(rte_eth_dev* dev, timespec* time, uint32_t number) noexcept {
    const Port& port = Port::of(dev);
    const uint32_t id = number / PtpStamps::kKept;
    if (!port.timesync || id >= port.rx_queues.size() || !port.rx_queues[id]) return -EINVAL;
    const PtpStamps& kept = port.format->rx_ptp_stamps(*port.rx_queues[id]->ring);
    const uint64_t stamp =
        __atomic_load_n(&kept.stamps[number % PtpStamps::kKept], __ATOMIC_RELAXED);
    if (stamp == 0) return -EINVAL;
    return tell(port, of_stamp(port, stamp), time);
}

int timesync_read_tx_timestamp(rte_eth_dev* dev, timespec* time) noexcept {
    const Port& port = Port::of(dev);
    if (!port.timesync) return -EINVAL;
    for (const auto& queue : port.tx_queues)
        if (queue)
            if (const std::optional<uint64_t> ticks = port.format->tx_take_stamp(*queue->ring))
                return tell(port, nanoseconds(port, *ticks), time);
    return -EINVAL;
}

int timesync_adjust_time(rte_eth_dev* dev, int64_t delta) noexcept {
    return adjust_at_now(
        dev, [&](AdjustedClock& clock, uint64_t device_time) { clock.adjust(device_time, delta); });
}

int timesync_adjust_freq(rte_eth_dev* dev, int64_t scaled_ppm) noexcept {
    return adjust_at_now(dev, [&](AdjustedClock& clock, uint64_t device_time) {
        clock.set_rate(device_time, scaled_ppm);
    });
}

int timesync_write_time(rte_eth_dev* dev, const timespec* time) noexcept {
    return adjust_at_now(dev, [&](AdjustedClock& clock, uint64_t device_time) {
        clock.set(device_time, rte_timespec_to_ns(time));
    });
}

int timesync_read_time(rte_eth_dev* dev, timespec* time) noexcept {
    const Port& port = Port::of(dev);
    if (const Result<void> on = check_on(port); !on) return report(port.name, on.error());
    return tell(port, now(port), time);
}

} // namespace rawqp
