// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/queues/rx_interrupts.hpp"

#include "drivers/net/rawqp/ethdev/queues/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/queue.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

namespace rawqp {
namespace {

bool wanted(const Port& port) { return port.dev->data->dev_conf.intr_conf.rxq != 0; }

Result<void> fill(Port& port, rte_intr_handle* handle) {
    const auto failed = [&](const char* what) {
        return fail(ENOMEM, "Rx interrupts: cannot {} for {} queues", what, port.rx_queues.size());
    };
    const auto count = static_cast<int>(port.rx_queues.size());
    if (rte_intr_vec_list_alloc(handle, "rawqp_rx", count) != 0) return failed("allocate vectors");
    for (int i = 0; i < count; ++i) {
        const int fd = port.rx_queues[static_cast<size_t>(i)]->channel->fd;
        if (rte_intr_vec_list_index_set(handle, i, RTE_INTR_VEC_RXTX_OFFSET + i) != 0 ||
            rte_intr_efds_index_set(handle, i, fd) != 0)
            return failed("set descriptors");
    }
    // EAL reads nothing from these descriptors: rx_queue_intr_disable does.
    if (rte_intr_nb_efd_set(handle, count) != 0 ||
        rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) != 0)
        return failed("complete the handle");
    return {};
}

/// Takes one event from the channel. False: there is none.
bool take_event(const RxQueue& queue) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    const verbs::Api& api = *queue.port.api;
    if (api.get_cq_event(queue.channel.get(), &cq, &context) != 0) return false;
    api.ack_cq_events(cq, 1);
    return true;
}

RxQueue* queue_with_channel(Port& port, uint16_t id) {
    const bool there = id < port.rx_queues.size() && port.rx_queues[id];
    return there && port.rx_queues[id]->channel ? port.rx_queues[id].get() : nullptr;
}

} // namespace

Result<void> create_rx_channel(RxQueue& queue) {
    if (!wanted(queue.port)) return {};
    const verbs::Api& api = *queue.port.api;
    queue.channel = verbs::CompChannel(api.create_comp_channel(queue.port.context.get()),
                                       {api.destroy_comp_channel, "completion channel"});
    const int flags = queue.channel ? fcntl(queue.channel->fd, F_GETFL) : -1;
    if (flags >= 0 && fcntl(queue.channel->fd, F_SETFL, flags | O_NONBLOCK) == 0) return {};
    const int error = errno;
    return fail(error, "Rx queue {}: no completion channel for its interrupts: {}",
                queue.spec.queue_id, rte_strerror(error));
}

Result<void> publish_rx_channels(Port& port) {
    if (!wanted(port) || port.rx_queues.empty()) return {};
    if (port.rx_queues.size() > RTE_MAX_RXTX_INTR_VEC_ID)
        return fail(ENOTSUP, "Rx interrupts: {} queues, DPDK has vectors for {}",
                    port.rx_queues.size(), RTE_MAX_RXTX_INTR_VEC_ID);
    for (const auto& queue : port.rx_queues)
        if (!queue->channel)
            return fail(EINVAL,
                        "Rx interrupts: queue {} was set up before they were configured: set it "
                        "up again",
                        queue->spec.queue_id);
    rte_intr_handle* handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
    if (handle == nullptr) return fail(ENOMEM, "Rx interrupts: cannot allocate a handle");
    port.dev->intr_handle = handle;
    Result<void> done = fill(port, handle);
    if (!done) withdraw_rx_channels(port);
    return done;
}

void withdraw_rx_channels(Port& port) {
    rte_intr_handle* handle = std::exchange(port.dev->intr_handle, nullptr);
    if (handle == nullptr) return;
    rte_intr_free_epoll_fd(handle);
    rte_intr_vec_list_free(handle);
    rte_intr_instance_free(handle);
}

int rx_queue_intr_enable(rte_eth_dev* dev, uint16_t id) noexcept {
    Port& port = Port::of(dev);
    RxQueue* queue = queue_with_channel(port, id);
    if (queue == nullptr)
        return report(port.name,
                      {EINVAL, fmt::format("Rx queue {} has no interrupt: configure the port "
                                           "with intr_conf.rxq",
                                           id)});
    // No event would ever come. The application has been told, so no more is said here.
    if (port.shared.is_lost()) return -EIO;
    return -port.format->rx_arm(*queue->ring);
}

int rx_queue_intr_disable(rte_eth_dev* dev, uint16_t id) noexcept {
    RxQueue* queue = queue_with_channel(Port::of(dev), id);
    if (queue == nullptr) return -EINVAL;
    while (take_event(*queue))
        queue->port.format->rx_event_taken(*queue->ring);
    return 0;
}

} // namespace rawqp
