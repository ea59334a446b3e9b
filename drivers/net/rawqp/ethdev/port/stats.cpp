// SPDX-License-Identifier: BSD-3-Clause
// Statistics: sums of the rings' counters since the last reset. The rings own their counters, so a
// reset remembers where they stood.
#include "drivers/net/rawqp/ethdev/port/ops.hpp"

#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/queues/counters.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>

namespace rawqp {
namespace {

/// Calls use(ring, shared, id) for each queue that is set up. Rings are found through ethdev's
/// data, the only way in other processes.
template <class Use> void for_each_rx(const ProcessPort& port, Use use) {
    const rte_eth_dev_data& data = *port.dev->data;
    for (uint16_t i = 0; i < data.nb_rx_queues; ++i)
        if (const auto* ring = static_cast<const RxRing*>(data.rx_queues[i]))
            use(*ring, port.shared.rx[i], i);
}
template <class Use> void for_each_tx(const ProcessPort& port, Use use) {
    const rte_eth_dev_data& data = *port.dev->data;
    for (uint16_t i = 0; i < data.nb_tx_queues; ++i)
        if (const auto* ring = static_cast<const TxRing*>(data.tx_queues[i]))
            use(*ring, port.shared.tx[i], i);
}

struct Sums {
    RxCounters rx;
    TxCounters tx;
};

void write(compat::QueueStats& stats, uint16_t queue, const RxCounters& count) {
    if (queue >= RTE_ETHDEV_QUEUE_STAT_CNTRS) return;
    stats.q_ipackets[queue] = count.packets;
    stats.q_ibytes[queue] = count.bytes;
    stats.q_errors[queue] = count.errors;
}
void write(compat::QueueStats& stats, uint16_t queue, const TxCounters& count) {
    if (queue >= RTE_ETHDEV_QUEUE_STAT_CNTRS) return;
    stats.q_opackets[queue] = count.packets;
    stats.q_obytes[queue] = count.bytes;
}

/// A port's receive and transmit side, summed over released and live queues. Each counter is read
/// once, so that those of queues, if requested, add up to the port's even under full traffic.
Sums totals(const ProcessPort& port, compat::QueueStats* queues = nullptr) {
    Sums sum{load(port.shared.totals.rx), load(port.shared.totals.tx)};
    for_each_rx(port, [&](const RxRing& ring, const SharedRxQueue& queue, uint16_t i) {
        const RxCounters count = since_reset(ring, queue.base);
        sum.rx += count;
        if (queues != nullptr) write(*queues, i, count);
    });
    for_each_tx(port, [&](const TxRing& ring, SharedTxQueue& queue, uint16_t i) {
        const TxCounters count = since_reset(ring, queue.base);
        sum.tx += count;
        if (queues != nullptr) write(*queues, i, count);
    });
    return sum;
}

/// Packets that the device dropped because no receive WQE was posted: by queues that it counts
/// separately, and by all others of the RDMA port, whoever uses it.
uint64_t missed(ProcessPort& port) {
    port.read_missed();
    const PortTotals& totals = port.shared.totals;
    return load_counter(totals.missed) + load_counter(totals.out_of_buffer);
}

/// Numbers of the queues that the device counts separately.
std::vector<uint16_t> counted_queues(const ProcessPort& port) {
    std::vector<uint16_t> queues;
    for (uint16_t i = 0; i < port.dev->data->nb_rx_queues; ++i)
        if (port.shared.rx[i].counts_missed) queues.push_back(i);
    return queues;
}

/// What the driver counts besides the statistics that all drivers have.
Figures own_counters(const ProcessPort& port) {
    const Sums sum = totals(port);
    return {{"rx_recoveries", sum.rx.recoveries},
            {"rx_unread_packets", load_counter(port.shared.totals.unread)},
            {"tx_recoveries", sum.tx.recoveries},
            {"tx_timestamp_past_errors", sum.tx.past_times},
            {"tx_timestamp_future_errors", sum.tx.future_times},
            {"tx_unsent_packets", load_counter(port.shared.totals.unsent)}};
}

} // namespace

int stats_get(rte_eth_dev* dev, rte_eth_stats& stats, compat::QueueStats* queues) noexcept {
    ProcessPort& port = ProcessPort::of(dev);
    const Sums sum = totals(port, queues);
    stats.ipackets = sum.rx.packets;
    stats.ibytes = sum.rx.bytes;
    stats.ierrors = sum.rx.errors;
    stats.rx_nombuf = sum.rx.nombuf;
    stats.opackets = sum.tx.packets;
    stats.obytes = sum.tx.bytes;
    stats.oerrors = sum.tx.errors;
    const uint64_t all = missed(port);
    stats.imissed = all - std::min(all, load_counter(port.shared.totals.missed_base));
    return 0;
}

int stats_reset(rte_eth_dev* dev) noexcept {
    ProcessPort& port = ProcessPort::of(dev);
    PortTotals& totals = port.shared.totals;
    store_counter(totals.missed_base, missed(port));
    for_each_rx(port, [](const RxRing& ring, SharedRxQueue& queue, uint16_t) {
        store(queue.base, snapshot(ring));
        store_counter(queue.missed_base, load_counter(queue.missed));
    });
    for_each_tx(port, [](const TxRing& ring, SharedTxQueue& queue, uint16_t) {
        store(queue.base, snapshot(ring));
    });
    store(totals.rx, {});
    store(totals.tx, {});
    store_counter(totals.unread, 0);
    store_counter(totals.unsent, 0);
    return 0;
}

int xstats_get_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned size) noexcept {
    ProcessPort& port = ProcessPort::of(dev);
    const Figures own = own_counters(port);
    const std::vector<uint16_t> counted = counted_queues(port);
    const std::vector<std::string> hardware = port.hardware.names(port);
    const size_t count = own.size() + counted.size() + hardware.size();
    if (names != nullptr && size >= count) {
        for (const Figure& figure : own)
            rte_strscpy((names++)->name, figure.name, sizeof names->name);
        for (const uint16_t queue : counted)
            snprintf((names++)->name, sizeof names->name, "rx_q%u_missed_errors", queue);
        for (const std::string& name : hardware)
            rte_strscpy((names++)->name, name.c_str(), sizeof names->name);
    }
    return static_cast<int>(count);
}

int xstats_get(rte_eth_dev* dev, rte_eth_xstat* values, unsigned size) noexcept {
    ProcessPort& port = ProcessPort::of(dev);
    port.read_missed();
    std::vector<uint64_t> all;
    for (const Figure& figure : own_counters(port))
        all.push_back(figure.value);
    for (const uint16_t queue : counted_queues(port))
        all.push_back(load_counter(port.shared.rx[queue].missed) -
                      load_counter(port.shared.rx[queue].missed_base));
    std::ranges::copy(port.hardware.read(port), std::back_inserter(all));
    if (values == nullptr || size < all.size()) return static_cast<int>(all.size());
    for (uint64_t id = 0; id < all.size(); ++id)
        values[id] = {id, all[id]};
    return static_cast<int>(all.size());
}

int xstats_reset(rte_eth_dev* dev) noexcept {
    ProcessPort& port = ProcessPort::of(dev);
    port.read_missed();
    if (!port.hardware.reset(port)) return -ENOMEM;
    return stats_reset(dev); // some extended statistics are the driver's own counters
}

} // namespace rawqp
