// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/netdev/mtu.hpp"

#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

namespace rawqp {
namespace {

/// The queues of a running port must hold the new frames as they are, except released ones, whose
/// mempools may be gone. Those of a stopped port may be set up again before start, which refits and
/// checks them anyway.
Result<void> check_rx_queues(const Port& port, uint32_t frame) {
    if (!port.started()) return {};
    for (const std::unique_ptr<RxQueue>& queue : port.rx_queues) {
        if (!queue || queue->released()) continue;
        const RxSpec& spec = queue->spec;
        RxSpec fitted = spec;
        fitted.max_frame = frame;
        if (Result<void> done = fit_segments(port, fitted, frame); !done) return done;
        if (port.format->rx_adjust != nullptr)
            if (Result<void> done = port.format->rx_adjust(fitted); !done) return done;
        if (fitted.segments > spec.segments)
            return fail(
                EBUSY,
                "Rx queue {} takes frames of {} bytes while the port runs: stop it to set an "
                "MTU that needs more mbufs per frame",
                spec.queue_id, spec.max_frame);
    }
    return {};
}

} // namespace

Result<void> sync_netdev_mtu(const Port& port, uint16_t mtu) {
    if (!port.netdev.present()) return {}; // in another namespace: whoever is there sets it
    const Result<uint32_t> now = port.netdev.mtu();
    if (!now) return tl::unexpected(now.error());
    if (*now == mtu) return {};
    if (Result<void> done = port.netdev.set_mtu(mtu); !done) return done;
    RAWQP_LOG(NOTICE, "%s: MTU of %s changed from %u to %u", port.name.c_str(),
              port.netdev.name().c_str(), *now, mtu);
    return {};
}

int mtu_set(rte_eth_dev* dev, uint16_t mtu) noexcept {
    const Port& port = Port::of(dev);
    if (const Result<void> done = check_rx_queues(port, port.longest_packet(mtu)); !done)
        return report(port.name, done.error());
    return report(port.name, sync_netdev_mtu(port, mtu));
}

} // namespace rawqp
