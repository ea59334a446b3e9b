// SPDX-License-Identifier: BSD-3-Clause
// Statistics: sums of the rings' counters since the last reset. The rings own their counters, so a
// reset remembers where they stood.
#include "drivers/net/rawqp/ethdev/port/ops.hpp"

#include "drivers/net/rawqp/ethdev/queues/counters.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"

#include <algorithm>

namespace rawqp {
namespace {

/// A port's receive and transmit side, summed over released and live queues.
PortTotals totals(const Port& port) {
    PortTotals sum;
    sum.rx = port.totals.rx;
    sum.tx = port.totals.tx;
    for (const auto& queue : port.rx_queues)
        if (queue) sum.rx += since_reset(*queue);
    for (const auto& queue : port.tx_queues)
        if (queue) sum.tx += since_reset(*queue);
    return sum;
}

/// Packets that the device dropped because no receive WQE was posted. One counter for all users of
/// the RDMA port; 0 where the device has none.
uint64_t missed(const Port& port) {
    return port.sysfs.hw_counter(port.device, port.ib_port, "out_of_buffer").value_or(0);
}

/// Counters that the hardware keeps: those of the RDMA port, then those of its netdev.
std::vector<netdev::Counter> hardware_counters(const Port& port) {
    std::vector<netdev::Counter> all;
    for (netdev::Counter& counter : port.sysfs.hw_counters(port.device, port.ib_port))
        all.push_back({"hw_" + counter.name, counter.value});
    if (Result<std::vector<netdev::Counter>> counters = port.netdev.counters())
        for (netdev::Counter& counter : *counters)
            all.push_back({"netdev_" + counter.name, counter.value});
    return all;
}

uint64_t base_of(const Port& port, size_t index, const std::string& name) {
    const std::vector<netdev::Counter>& base = port.totals.hardware_base;
    return index < base.size() && base[index].name == name ? base[index].value : 0;
}

std::vector<netdev::Counter> all_xstats(const Port& port) {
    const PortTotals sum = totals(port);
    std::vector<netdev::Counter> all{{"rx_recoveries", sum.rx.recoveries},
                                     {"rx_unread_packets", port.totals.unread},
                                     {"tx_recoveries", sum.tx.recoveries},
                                     {"tx_unsent_packets", port.totals.unsent}};
    const std::vector<netdev::Counter> hardware = hardware_counters(port);
    for (size_t i = 0; i < hardware.size(); ++i) {
        const netdev::Counter& now = hardware[i];
        all.push_back({now.name, now.value - std::min(now.value, base_of(port, i, now.name))});
    }
    return all;
}

void write_queue_stats(const Port& port, compat::QueueStats& stats) {
    const auto shown = [](const auto& queues) {
        return std::min<size_t>(queues.size(), RTE_ETHDEV_QUEUE_STAT_CNTRS);
    };
    for (size_t i = 0; i < shown(port.rx_queues); ++i) {
        if (!port.rx_queues[i]) continue;
        const RxCounters count = since_reset(*port.rx_queues[i]);
        stats.q_ipackets[i] = count.packets;
        stats.q_ibytes[i] = count.bytes;
        stats.q_errors[i] = count.errors;
    }
    for (size_t i = 0; i < shown(port.tx_queues); ++i) {
        if (!port.tx_queues[i]) continue;
        const TxCounters count = since_reset(*port.tx_queues[i]);
        stats.q_opackets[i] = count.packets;
        stats.q_obytes[i] = count.bytes;
    }
}

} // namespace

int stats_get(rte_eth_dev* dev, rte_eth_stats& stats, compat::QueueStats* queues) noexcept {
    const Port& port = Port::of(dev);
    const PortTotals sum = totals(port);
    stats.ipackets = sum.rx.packets;
    stats.ibytes = sum.rx.bytes;
    stats.ierrors = sum.rx.errors;
    stats.rx_nombuf = sum.rx.nombuf;
    stats.opackets = sum.tx.packets;
    stats.obytes = sum.tx.bytes;
    stats.oerrors = sum.tx.errors;
    const uint64_t out_of_buffer = missed(port);
    stats.imissed = out_of_buffer - std::min(out_of_buffer, port.totals.missed_base);
    if (queues != nullptr) write_queue_stats(port, *queues);
    return 0;
}

int stats_reset(rte_eth_dev* dev) noexcept {
    Port& port = Port::of(dev);
    for (const auto& queue : port.rx_queues)
        if (queue) queue->base = snapshot(*queue->ring);
    for (const auto& queue : port.tx_queues)
        if (queue) queue->base = snapshot(*queue->ring);
    port.totals.rx = {};
    port.totals.tx = {};
    port.totals.unread = 0;
    port.totals.unsent = 0;
    port.totals.missed_base = missed(port);
    return 0;
}

int xstats_get_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned size) noexcept {
    const std::vector<netdev::Counter> all = all_xstats(Port::of(dev));
    if (names != nullptr && size >= all.size())
        for (size_t i = 0; i < all.size(); ++i)
            rte_strscpy(names[i].name, all[i].name.c_str(), sizeof(names[i].name));
    return static_cast<int>(all.size());
}

int xstats_get(rte_eth_dev* dev, rte_eth_xstat* values, unsigned size) noexcept {
    const std::vector<netdev::Counter> all = all_xstats(Port::of(dev));
    if (values != nullptr && size >= all.size())
        for (size_t i = 0; i < all.size(); ++i)
            values[i] = {i, all[i].value};
    return static_cast<int>(all.size());
}

int xstats_reset(rte_eth_dev* dev) noexcept {
    Port& port = Port::of(dev);
    port.totals.hardware_base = hardware_counters(port);
    return stats_reset(dev); // some extended statistics are the driver's own counters
}

} // namespace rawqp
