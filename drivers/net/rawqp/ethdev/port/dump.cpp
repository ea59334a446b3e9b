// SPDX-License-Identifier: BSD-3-Clause
// What a port is made of, for people to read. Uses only what all processes share, so that any of
// them can report it.
#include "drivers/net/rawqp/ethdev/port/ops.hpp"

#include "drivers/net/rawqp/ethdev/process_port.hpp"
#include "drivers/net/rawqp/ethdev/queues/counters.hpp"

#include <algorithm>

namespace rawqp {
namespace {

std::string describe_device(const ProcessPort& port) {
    const SharedPort& shared = port.shared;
    return fmt::format("  device    {} port {}, firmware {}, interface {}\n", shared.device.data(),
                       shared.ib_port, shared.firmware.data(),
                       port.netdev.present() ? port.netdev.name() : "not in this namespace");
}

std::string describe_data_path(const ProcessPort& port) {
    const SharedPort& shared = port.shared;
    const bool running = shared.is_running();
    std::string text = fmt::format("  datapath  {}{}, {}\n", port.format->name,
                                   shared.striding ? " with striding queues" : "",
                                   running ? "running" : "stopped");
    if (running)
        text +=
            fmt::format("  bursts    rx {}, tx {}\n", port.rx_burst_name(), port.tx_burst_name());
    text += fmt::format("  processes {}\n", shared.not_shareable[0] != '\0'
                                                ? shared.not_shareable.data()
                                            : shared.shared ? "other processes use it, or did"
                                                            : "this one alone so far");
    return text;
}

/// The queues of the first entries, as most tables repeat them.
std::string describe_rss(const RssState& rss) {
    if (rss.reta.size() == 0) return "  rss       not configured\n";
    return fmt::format(
        "  rss       types {:#x}, {} entries: {}{}\n", rss.types, rss.reta.size(),
        fmt::join(rss.reta.begin(), rss.reta.begin() + std::min<size_t>(rss.reta.size(), 16), " "),
        rss.reta.size() > 16 ? " ..." : "");
}

std::string describe_rx(const ProcessPort& port, uint16_t id) {
    const SharedRxQueue& queue = port.shared.rx[id];
    const QueueState state = load_state(queue.state);
    std::string text = fmt::format("  rxq {:<5} {}", id, name_of(state));
    if (state == QueueState::absent) return text + "\n";
    text += fmt::format("{}, {} descriptors, {} to a packet, offloads {:#x}",
                        queue.deferred ? ", deferred" : "", queue.descriptors, queue.segments,
                        queue.offloads);
    if (const auto* ring = static_cast<const RxRing*>(port.dev->data->rx_queues[id])) {
        const RxCounters count = since_reset(*ring, queue.base);
        text +=
            fmt::format("; {} packets, {} bytes, {} errors, {} without mbuf, {} recoveries",
                        count.packets, count.bytes, count.errors, count.nombuf, count.recoveries);
    }
    return text + "\n";
}

std::string describe_tx(const ProcessPort& port, uint16_t id) {
    SharedTxQueue& queue = port.shared.tx[id];
    const QueueState state = load_state(queue.state);
    std::string text = fmt::format("  txq {:<5} {}", id, name_of(state));
    if (state == QueueState::absent) return text + "\n";
    text += fmt::format("{}, {} descriptors, offloads {:#x}", queue.deferred ? ", deferred" : "",
                        queue.descriptors, queue.offloads);
    if (const auto* ring = static_cast<const TxRing*>(port.dev->data->tx_queues[id])) {
        const TxCounters count = since_reset(*ring, queue.base);
        text += fmt::format("; {} packets, {} bytes, {} errors, {} recoveries", count.packets,
                            count.bytes, count.errors, count.recoveries);
    }
    return text + "\n";
}

/// Descriptors [offset, offset + count) of a queue with that many of them, each described by
/// `text`.
template <class Ring>
int dump_descriptors(const void* queue, uint16_t all, uint16_t offset, uint16_t count, FILE* file,
                     std::string (*text)(const Ring&, uint16_t)) {
    if (queue == nullptr || offset + count > all) return -EINVAL;
    for (uint16_t i = offset; i < offset + count; ++i)
        if (fputs(text(*static_cast<const Ring*>(queue), i).c_str(), file) < 0) return -EIO;
    return 0;
}

} // namespace

int rx_descriptor_dump(const rte_eth_dev* dev, uint16_t queue, uint16_t offset, uint16_t count,
                       FILE* file) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    return dump_descriptors(dev->data->rx_queues[queue], port.shared.rx[queue].descriptors, offset,
                            count, file, port.format->rx_descriptor_text);
}

int tx_descriptor_dump(const rte_eth_dev* dev, uint16_t queue, uint16_t offset, uint16_t count,
                       FILE* file) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    return dump_descriptors(dev->data->tx_queues[queue], port.shared.tx[queue].descriptors, offset,
                            count, file, port.format->tx_descriptor_text);
}

int priv_dump(rte_eth_dev* dev, FILE* file) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    const rte_eth_dev_data& data = *dev->data;
    std::string text = fmt::format("port {} {}\n", data.port_id, port.name);
    text += describe_device(port) + describe_data_path(port);
    text += fmt::format("  memory    {} regions\n", port.shared.mrs->size());
    text += describe_rss(port.shared.rss);
    for (uint16_t id = 0; id < data.nb_rx_queues; ++id)
        text += describe_rx(port, id);
    for (uint16_t id = 0; id < data.nb_tx_queues; ++id)
        text += describe_tx(port, id);
    return fputs(text.c_str(), file) < 0 ? -EIO : 0;
}

} // namespace rawqp
