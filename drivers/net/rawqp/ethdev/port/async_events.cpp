// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/port/async_events.hpp"

#include "drivers/net/rawqp/ethdev/netdev/link.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/queues/cq.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {
namespace {

constexpr uint64_t kRecheckMicroseconds = 100'000, kSoonMicroseconds = 1;

} // namespace

AsyncEvents::~AsyncEvents() {
    if (registered_) {
        rte_intr_callback_unregister_sync(handle_, on_readable, this);
        // Each waits for one that is running, unless this is called by it.
        for (const auto alarm : {on_recheck, tell_of_link, tell_of_removal})
            rte_eal_alarm_cancel(alarm, this);
    }
    rte_intr_instance_free(handle_);
}

Result<void> AsyncEvents::start() {
    const int fd = port_.context->async_fd;
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return fail(errno, "{}: cannot read events of {}: {}", port_.name, port_.device,
                    rte_strerror(errno));
    handle_ = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
    if (handle_ == nullptr || rte_intr_fd_set(handle_, fd) != 0 ||
        rte_intr_type_set(handle_, RTE_INTR_HANDLE_EXT) != 0)
        return fail(ENOMEM, "{}: cannot allocate an interrupt handle", port_.name);
    if (const int error = -rte_intr_callback_register(handle_, on_readable, this); error > 0)
        return fail(error, "{}: cannot wait for events of {}: {}", port_.name, port_.device,
                    rte_strerror(error));
    registered_ = true;
    return {};
}

Figures AsyncEvents::figures() const {
    return {{"link_up", counts_.link_up},           {"link_down", counts_.link_down},
            {"device_fatal", counts_.device_fatal}, {"cq_errors", counts_.cq_errors},
            {"queue_errors", counts_.queue_errors}, {"others", counts_.others}};
}

void AsyncEvents::on_readable(void* self) {
    for (bool more = true; more;)
        static_cast<AsyncEvents*>(self)->read_one_event(more);
}

void AsyncEvents::on_recheck(void* self) { (void)static_cast<AsyncEvents*>(self)->report_link(); }

void AsyncEvents::tell_soon(rte_eal_alarm_callback tell) {
    if (rte_eal_alarm_set(kSoonMicroseconds, tell, this) != 0)
        tell(this); // which may not close the port then
}

// Afterwards the port may be gone.
void AsyncEvents::tell_of_link(void* self) {
    rte_eth_dev_callback_process(static_cast<AsyncEvents*>(self)->port_.dev, RTE_ETH_EVENT_INTR_LSC,
                                 nullptr);
}
void AsyncEvents::tell_of_removal(void* self) {
    rte_eth_dev_callback_process(static_cast<AsyncEvents*>(self)->port_.dev, RTE_ETH_EVENT_INTR_RMV,
                                 nullptr);
}

void AsyncEvents::read_one_event(bool& more) {
    ibv_async_event event{};
    more = port_.api->get_async_event(port_.context.get(), &event) == 0;
    if (!more) return;
    // Acknowledged at once: destroying an object waits for its events. After this, `element` may
    // dangle.
    const int port_number = event.element.port_num;
    const CqOwner owner =
        event.event_type == IBV_EVENT_CQ_ERR ? CqOwner::of(*event.element.cq) : CqOwner{};
    port_.api->ack_async_event(&event);

    switch (event.event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
        ++(event.event_type == IBV_EVENT_PORT_ACTIVE ? counts_.link_up : counts_.link_down);
        if (port_number == port_.ib_port) on_link_change(event.event_type == IBV_EVENT_PORT_ACTIVE);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        ++counts_.device_fatal;
        port_.shared.set_lost();
        RAWQP_LOG(ERR, "%s: RDMA device %s failed or was removed: close the port",
                  port_.name.c_str(), port_.device.c_str());
        if (port_.dev->data->dev_conf.intr_conf.rmv != 0) tell_soon(tell_of_removal);
        break;
    case IBV_EVENT_CQ_ERR:
        ++counts_.cq_errors;
        on_cq_error(owner);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_WQ_FATAL:
        ++counts_.queue_errors;
        // The error CQE for the same failure makes the ring recover on its own lcore.
        RAWQP_LOG(WARNING, "%s: event of %s: %s", port_.name.c_str(), port_.device.c_str(),
                  port_.api->event_type_str(event.event_type));
        break;
    default:
        ++counts_.others;
        RAWQP_LOG(DEBUG, "%s: event of %s ignored: %s", port_.name.c_str(), port_.device.c_str(),
                  port_.api->event_type_str(event.event_type));
    }
}

/// No more CQEs arrive, neither for packets nor for errors.
void AsyncEvents::on_cq_error(const CqOwner& owner) {
    const bool receives = owner.side == CqOwner::Side::rx;
    if (owner.side == CqOwner::Side::neither) {
        RAWQP_LOG(ERR, "%s: a CQ of %s failed that is of no Rx or Tx queue: close the port",
                  port_.name.c_str(), port_.device.c_str());
        return;
    }
    (receives ? port_.shared.rx[owner.queue].failed_cq : port_.shared.tx[owner.queue].failed_cq)
        .note(owner.serial);
    RAWQP_LOG(ERR,
              "%s: a CQ of %s failed, and %s queue %u is lost with it: stop the port, set this "
              "queue up again and start the port",
              port_.name.c_str(), port_.device.c_str(), receives ? "Rx" : "Tx", owner.queue);
}

void AsyncEvents::on_link_change(bool expected_up) {
    // The netdev may see the carrier a little later than the RDMA port: check once more.
    if (report_link() != expected_up) rte_eal_alarm_set(kRecheckMicroseconds, on_recheck, this);
}

bool AsyncEvents::report_link() {
    const rte_eth_link link = read_link(port_);
    const bool changed = rte_eth_linkstatus_set(port_.dev, &link) == 0;
    // Not dev_started: ethdev's bits are for control calls, and this is not their thread.
    if (changed && port_.shared.is_running() && port_.dev->data->dev_conf.intr_conf.lsc != 0)
        tell_soon(tell_of_link);
    return link.link_status == RTE_ETH_LINK_UP;
}

} // namespace rawqp
