// SPDX-License-Identifier: BSD-3-Clause
// Life of a port: configure, start, stop, close.
#include "drivers/net/rawqp/ethdev/flow/age_timer.hpp"
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/memory/memory.hpp"
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"
#include "drivers/net/rawqp/ethdev/meter/meters.hpp"
#include "drivers/net/rawqp/ethdev/netdev/led.hpp"
#include "drivers/net/rawqp/ethdev/netdev/link.hpp"
#include "drivers/net/rawqp/ethdev/netdev/mtu.hpp"
#include "drivers/net/rawqp/ethdev/port/answers.hpp"
#include "drivers/net/rawqp/ethdev/port/async_events.hpp"
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/port/other_drivers.hpp"
#include "drivers/net/rawqp/ethdev/port/telemetry.hpp"
#include "drivers/net/rawqp/ethdev/presence.hpp"
#include "drivers/net/rawqp/ethdev/process/secondaries.hpp"
#include "drivers/net/rawqp/ethdev/queues/counters.hpp"
#include "drivers/net/rawqp/ethdev/queues/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"
#include "drivers/net/rawqp/ethdev/queues/rx_interrupts.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"
#include "drivers/net/rawqp/ethdev/steering/reta.hpp"
#include "drivers/net/rawqp/ethdev/steering/rx_queue_set.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include <algorithm>

namespace rawqp {
namespace {

Result<void> check_queues(const Port& port) {
    for (size_t i = 0; i < port.rx_queues.size(); ++i)
        if (!port.rx_queues[i] || port.rx_queues[i]->released())
            return fail(EINVAL, "Rx queue {} is not set up", i);
    for (size_t i = 0; i < port.tx_queues.size(); ++i)
        if (!port.tx_queues[i]) return fail(EINVAL, "Tx queue {} is not set up", i);
    return {};
}

/// Called before any rule is made. A queue that was set up for another configuration would not
/// complete headers, or would not have room for them.
Result<void> choose_lro(Port& port) {
    const bool wanted = port.wants_lro();
    for (const auto& queue : port.rx_queues)
        if (((queue->spec.offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0) != wanted)
            return fail(EINVAL,
                        "Rx queue {} was set up {} LRO, and the port is configured {} it since: "
                        "set the queue up again",
                        queue->spec.queue_id, wanted ? "without" : "with",
                        wanted ? "with" : "without");
    std::optional<LroTerms> terms;
    if (wanted)
        terms = lro_terms(*port.lro, port.dev->data->dev_conf.rxmode.max_lro_pkt_size,
                          port.devargs.lro_period);
    port.steering->use_lro(terms);
    return {};
}

/// A port has one burst function for all of its queues: it must serve the most demanding one.
void select_bursts(Port& port) {
    rte_eth_dev& dev = *port.dev;
    const RingFormat& format = *port.format;
    if (!port.rx_queues.empty()) {
        const RxSpec spec = combined_rx_spec(port, port.rx_queues[0]->spec);
        port.shared.bursts.note(spec);
        dev.rx_pkt_burst = format.rx_burst(spec).function;
        dev.data->scattered_rx = spec.segments > 1 ? 1 : 0;
        for (const auto& queue : port.rx_queues)
            report_as_others(port, *queue->ring);
    }
    port.tx_burst = nullptr;
    if (!port.tx_queues.empty()) {
        const TxSpec spec = combined_tx_spec(port, port.tx_queues[0]->spec);
        port.shared.bursts.note(spec);
        port.tx_burst = format.tx_burst(spec).function;
        choose_tx_burst(port);
    }
    dev.tx_pkt_prepare = format.tx_prepare;
    dev.rx_queue_count = format.rx_queue_count;
    dev.rx_descriptor_status = format.rx_descriptor_status;
    dev.tx_descriptor_status = format.tx_descriptor_status;
}

void mark_queues(rte_eth_dev_data& data, uint8_t state) {
    std::fill_n(data.rx_queue_state, data.nb_rx_queues, state);
    std::fill_n(data.tx_queue_state, data.nb_tx_queues, state);
}

/// Undoes start, however far it got.
void halt(Port& port) {
    port.dev->rx_pkt_burst = rte_eth_pkt_burst_dummy;
    port.dev->tx_pkt_burst = rte_eth_pkt_burst_dummy;
    if (port.shared.is_running()) {
        port.shared.set_running(false);
        port.secondaries->tell(Event::changed);
    }
    port.flows->stop();
    port.filters->clear();
    withdraw_rx_channels(port);
    for (const auto& queue : port.rx_queues)
        if (queue) stop_rx_queue(*queue);
    std::vector<TxQueue*> tx_queues;
    for (const auto& queue : port.tx_queues)
        if (queue) tx_queues.push_back(queue.get());
    stop_tx_queues(tx_queues);
    mark_queues(*port.dev->data, RTE_ETH_QUEUE_STATE_STOPPED);
}

/// Steering comes last, so that packets arrive only when everything else is ready.
Result<void> start(Port& port) {
    Result<void> done = check_queues(port);
    if (done) done = sync_netdev_mtu(port, port.dev->data->mtu);
    if (done) done = choose_lro(port);
    if (done) done = refit_rx_queues(port);
    for (const auto& queue : port.tx_queues)
        if (done && !queue->shared.deferred) done = start_tx_queue(*queue);
    for (const auto& queue : port.rx_queues)
        if (done && !queue->shared.deferred) done = start_rx_queue(*queue);
    if (done) done = publish_rx_channels(port);
    if (done && !port.isolated && !port.rx_queues.empty())
        done = port.filters->apply(wanted_filters(port));
    if (done) done = port.flows->start();
    if (!done) return done;
    select_bursts(port);
    mark_queues(*port.dev->data, RTE_ETH_QUEUE_STATE_STARTED);
    for (const auto& queue : port.rx_queues)
        if (!queue->running())
            port.dev->data->rx_queue_state[queue->spec.queue_id] = RTE_ETH_QUEUE_STATE_STOPPED;
    for (const auto& queue : port.tx_queues)
        if (!queue->running())
            port.dev->data->tx_queue_state[queue->spec.queue_id] = RTE_ETH_QUEUE_STATE_STOPPED;
    return {};
}

} // namespace

Port::Port(rte_eth_dev* ethdev, SharedPort& shared_part) : ProcessPort(ethdev, shared_part) {}
Port::~Port() = default;

bool Port::register_address(uintptr_t address, MrEntry& entry) {
    return memory->register_address(address, entry);
}
int Port::reset(RxRing& ring) { return recover(*rx_queues[ring.queue_id]); }
int Port::reset(TxRing& ring) { return recover(*tx_queues[ring.queue_id]); }
int Port::read_clock(mlx5dv_clock_info& info) {
    return api->mlx5_get_clock_info(context.get(), &info);
}

int Port::read_clock(uint64_t& ticks) {
    const Result<uint64_t> clock = device_ticks(*this);
    if (clock) ticks = *clock;
    return clock ? 0 : clock.error().code;
}

void Port::read_missed() {
    for (const auto& queue : rx_queues)
        if (queue) queue->count_missed();
    const Result<uint64_t> others =
        sysfs.hw_counter(shared.device.data(), shared.ib_port, kOutOfBuffer);
    if (others) store_counter(shared.totals.out_of_buffer, *others);
}

int dev_configure(rte_eth_dev* dev) noexcept {
    Port& port = Port::of(dev);
    Result<void> done = check_lro(dev->data->dev_conf.rxmode.offloads);
    if (!done) return report(port.name, done.error());
    if ((dev->data->dev_conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP) != 0 &&
        rte_mbuf_dyn_tx_timestamp_register(nullptr, nullptr) != 0)
        return report(port.name, {rte_errno, "mbufs have no room for a time to be sent at"});
    // Last: a call that fails changes nothing.
    if (done = configure_rss(port); !done) return report(port.name, done.error());
    // ethdev has released the queues beyond the new counts, except those that already were.
    for (size_t i = dev->data->nb_rx_queues; i < port.rx_queues.size(); ++i)
        if (port.rx_queues[i]) advance(port.rx_queues[i]->shared.state, QueueState::absent);
    port.rx_queues.resize(dev->data->nb_rx_queues);
    port.tx_queues.resize(dev->data->nb_tx_queues);
    return 0;
}

int dev_start(rte_eth_dev* dev) noexcept {
    Port& port = Port::of(dev);
    port.secondaries->wait_for_mute();
    if (const Result<void> done = start(port); !done) {
        halt(port);
        return report(port.name, done.error());
    }
    port.speeds = read_speeds(port); // another transceiver may be plugged in
    publish_info(port);
    port.shared.set_running(true);
    port.secondaries->tell(Event::changed);
    if (dev->data->dev_conf.intr_conf.lsc != 0) { // else ethdev asks for it itself
        const rte_eth_link link = read_link(port);
        rte_eth_linkstatus_set(dev, &link);
    }
    return 0;
}

int dev_stop(rte_eth_dev* dev) noexcept {
    halt(Port::of(dev));
    return 0;
}

int dev_close(rte_eth_dev* dev) noexcept {
    if (dev->process_private == nullptr) return 0;
    const std::unique_ptr<Port> port(&Port::of(dev));
    // Without the lock, as each of them waits for its thread, on which an application that is being
    // notified may be querying the port.
    port->age_timer.reset();
    port->telemetry.reset();
    port->events.reset(); // which telemetry reports
    Presence::of(*dev).end();
    const std::unique_lock lock(port->control);
    halt(*port);
    port->answers.reset();
    port->secondaries.reset(); // before what it reports on vanishes
    for (size_t i = 0; i < port->rx_queues.size(); ++i)
        rx_queue_release(dev, static_cast<uint16_t>(i));
    for (size_t i = 0; i < port->tx_queues.size(); ++i)
        tx_queue_release(dev, static_cast<uint16_t>(i));
    free_bases(port->totals);
    dev->process_private = nullptr;
    set_ring_host(dev->data->port_id, nullptr);
    return 0;
}

} // namespace rawqp
