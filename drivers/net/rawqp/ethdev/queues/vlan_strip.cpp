// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/queues/vlan_strip.hpp"

#include "drivers/net/rawqp/ethdev/queues/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

namespace rawqp {
namespace {

bool strips(const RxQueue& queue) {
    return (queue.spec.offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
}

/// Makes the device or the ring do what the queue's offloads say.
Result<void> update(RxQueue& queue) {
    const RingFormat& format = *queue.port.format;
    if (format.rx_strip_vlan != nullptr) return format.rx_strip_vlan(*queue.ring, strips(queue));
    return queue.running() ? update_wq_strip(queue) : Result<void>(); // else start does
}

Result<void> set_strip(RxQueue& queue, bool strip) {
    const Port& port = queue.port;
    const uint64_t before = queue.spec.offloads;
    queue.spec.offloads =
        strip ? before | RTE_ETH_RX_OFFLOAD_VLAN_STRIP : before & ~RTE_ETH_RX_OFFLOAD_VLAN_STRIP;
    if (strip && port.started() &&
        port.format->rx_burst(combined_rx_spec(port, queue.spec)).function !=
            port.dev->rx_pkt_burst)
        __atomic_store_n(&queue.ring->tell_all, true, __ATOMIC_RELEASE);
    Result<void> done = update(queue);
    if (!done) queue.spec.offloads = before;
    queue.shared.offloads = queue.spec.offloads; // which applications may query
    return done;
}

} // namespace

Result<void> set_strip(const std::vector<RxQueue*>& queues, bool strip) {
    for (size_t i = 0; i < queues.size(); ++i)
        if (Result<void> done = set_strip(*queues[i], strip); !done) {
            while (i > 0)
                (void)set_strip(*queues[--i], !strip);
            return done;
        }
    return {};
}

std::vector<RxQueue*> queues_that_strip(const Port& port, bool strip) {
    std::vector<RxQueue*> queues;
    for (const std::unique_ptr<RxQueue>& queue : port.rx_queues)
        if (queue && strips(*queue) == strip) queues.push_back(queue.get());
    return queues;
}

bool wants_wq_strip(const RxQueue& queue) {
    return queue.port.format->rx_strip_vlan == nullptr && strips(queue);
}

Result<void> update_wq_strip(RxQueue& queue) {
    const bool strip = wants_wq_strip(queue);
    if (queue.wq_strips == strip) return {};
    ibv_wq_attr attributes{};
    attributes.attr_mask = IBV_WQ_ATTR_FLAGS;
    attributes.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
    attributes.flags = strip ? IBV_WQ_FLAGS_CVLAN_STRIPPING : 0;
    if (const int error = ibv_modify_wq(queue.wq.get(), &attributes))
        return fail(error, "Rx queue {}: cannot {} VLAN stripping: {}", queue.spec.queue_id,
                    strip ? "start" : "stop", rte_strerror(error));
    queue.wq_strips = strip;
    return {};
}

void vlan_strip_queue_set(rte_eth_dev* dev, uint16_t queue, int on) noexcept {
    Port& port = Port::of(dev);
    if (!port.rx_queues[queue]) {
        report(port.name,
               {EINVAL, fmt::format("Rx queue {} is not set up: its VLAN stripping cannot be "
                                    "changed",
                                    queue)});
        return;
    }
    report(port.name, set_strip(*port.rx_queues[queue], on != 0));
}

} // namespace rawqp
