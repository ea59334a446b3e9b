// SPDX-License-Identifier: BSD-3-Clause
// Set-up of Rx queues, on a stopped port and on a running one, whose rules are then installed
// again.
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/counters.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"

#include <algorithm>
#include <bit>

namespace rawqp {
namespace {

void install(Port& port, std::unique_ptr<RxQueue> queue, bool deferred) {
    const uint16_t id = queue->spec.queue_id;
    store(queue->shared.base, {});
    store_counter(queue->shared.missed_base, load_counter(queue->shared.missed));
    queue->publish(deferred);
    port.rx_queues[id] = std::move(queue);
}

void withdraw_rules(Port& port) {
    port.flows->stop();
    port.filters->clear();
}

/// Keeps what the application asked for, to report it as long as the queue exists, whatever the
/// application does with its copy.
Result<void> keep_split(RxQueue& queue) {
    const auto& wanted = queue.spec.split_wanted;
    if (wanted.empty()) return {};
    queue.split = socket_array<rte_eth_rxseg>(wanted.size(), queue.spec.socket);
    if (!queue.split)
        return fail(ENOMEM, "Rx queue {}: no memory for {} segments", queue.spec.queue_id,
                    wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
        queue.split[i].split = wanted[i];
    return {};
}

/// Installs everything that steering has for the port, with the present queues.
Result<void> install_rules(Port& port) {
    Result<void> done = apply_filters(port, wanted_filters(port));
    if (done) done = port.flows->start();
    return done;
}

/// For a queue that is not set up after all.
void mark_released(Port& port, RxQueue& queue) {
    queue.shared.counts_missed = false;
    port.dev->data->rx_queues[queue.spec.queue_id] = nullptr;
    advance(queue.shared.state, QueueState::released);
}

/// Puts the queue in the place of a released one, whose WQ steering refers to: all rules are
/// installed again. Packets that arrive in between go to the Linux interface. If the device refuses
/// the rules, the previous ones are installed, and the queue stays released.
Result<void> replace_running(Port& port, std::unique_ptr<RxQueue> queue, bool deferred) {
    const uint16_t id = queue->spec.queue_id;
    const auto runs = [&](const RxSpec& spec) {
        return port.format->rx_burst(spec).function == port.dev->rx_pkt_burst;
    };
    RxSpec combined = combined_rx_spec(port, queue->spec);
    if (!runs(combined)) {
        combined.offloads &= ~RTE_ETH_RX_OFFLOAD_VLAN_STRIP; // may be enabled at run time
        queue->ring->tell_all = true;
        if (!runs(combined))
            return fail(EBUSY,
                        "Rx queue {}: its offloads or segments need another burst function than "
                        "the port runs with: stop the port first",
                        id);
    }
    withdraw_rules(port);
    std::unique_ptr<RxQueue> former = std::move(port.rx_queues[id]);
    install(port, std::move(queue), deferred);
    Result<void> done = install_rules(port);
    if (done) return done;
    withdraw_rules(port);
    std::swap(port.rx_queues[id], former);
    if (install_rules(port)) {
        mark_released(port, *former);
        return fail(done.error().code,
                    "Rx queue {} is not set up, as the port's rules cannot be installed with it: "
                    "{}: the port goes on without it",
                    id, done.error().what);
    }
    withdraw_rules(port);
    std::swap(port.rx_queues[id], former);
    return fail(done.error().code,
                "Rx queue {} is set up, but the port's rules cannot be installed again: {}: stop "
                "the port and start it, for until then packets go to the Linux interface",
                id, done.error().what);
}

} // namespace

int rx_queue_setup(rte_eth_dev* dev, uint16_t id, uint16_t descriptors, unsigned socket,
                   const rte_eth_rxconf* conf, rte_mempool* pool) noexcept {
    Port& port = Port::of(dev);
    RxSpec wanted;
    wanted.queue_id = id;
    wanted.descriptors = std::bit_ceil(std::max(descriptors, kMinDescriptors));
    // ethdev omits from `conf` what is enabled for the whole port.
    wanted.offloads = conf->offloads | dev->data->dev_conf.rxmode.offloads;
    wanted.socket = static_cast<int>(socket);
    wanted.pool = pool;
    if ((wanted.offloads & RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT) != 0)
        for (uint16_t i = 0; i < conf->rx_nseg; ++i)
            wanted.split_wanted.push_back(conf->rx_seg[i].split);
    if (port.timesync && (wanted.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) == 0)
        return report(port.name,
                      {EINVAL, fmt::format("Rx queue {}: timesync is enabled, which needs "
                                           "RTE_ETH_RX_OFFLOAD_TIMESTAMP: ask for it, or call "
                                           "rte_eth_timesync_disable before",
                                           id)});
    Result<std::unique_ptr<RxQueue>> queue = create_rx_queue(port, wanted);
    if (!queue) return report(port.name, queue.error());
    if (const Result<void> kept = keep_split(**queue); !kept)
        return report(port.name, kept.error());
    const bool deferred = conf->rx_deferred_start != 0;
    if (port.started()) {
        const Result<void> done = replace_running(port, std::move(*queue), deferred);
        return done ? 0 : report(port.name, done.error());
    }
    install(port, std::move(*queue), deferred);
    return 0;
}

} // namespace rawqp
