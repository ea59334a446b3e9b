// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/driver/device.hpp"

#include "common/diagnosis/checks.hpp"
#include "common/diagnosis/refusals.hpp"
#include "common/verbs/device_list.hpp"
#include "common/verbs/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/driver/formats.hpp"
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"
#include "drivers/net/rawqp/ethdev/netdev/link.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <cerrno>
#include <linux/capability.h>

namespace rawqp {
namespace {

/// What rawqp-doctor would check.
diagnosis::Case case_of(const Port& port) {
    diagnosis::Case subject;
    subject.host = diagnosis::Host("", port.sysfs.root());
    subject.api = *port.api;
    subject.device = port.device;
    subject.port = port.ib_port;
    return subject;
}

/// The device is not in libibverbs' list. `error`: there is no list.
tl::unexpected<Error> no_such_device(const Port& port, int error) {
    diagnosis::Case subject = case_of(port);
    const auto broken =
        error != 0 ? first_broken(subject, {"uverbs-module", "provider"})
                   : first_broken(subject, {"nic", "uverbs-module", "rdma-device", "provider"});
    return fail(error != 0 ? error : ENODEV, "cannot find RDMA device {}: {}", port.device,
                broken ? broken->sentence() : "it has come just now: try again");
}

tl::unexpected<Error> no_such_interface(const Port& port, Error error) {
    diagnosis::Case subject = case_of(port);
    subject.device.clear();
    subject.iface = port.devargs.iface;
    if (const auto broken = first_broken(subject, {"rdma-device"})) error.what = broken->sentence();
    return tl::unexpected(std::move(error));
}

/// Why the device cannot be opened. libibverbs tries other places for the node when the first open
/// fails, and `error` is from the last one: it tells little about the node.
Error open_failure(const Port& port, const ibv_device& device, int error) {
    diagnosis::Case subject = case_of(port);
    subject.node = fmt::format("/dev/infiniband/{}", device.dev_name);
    if (error == EACCES || error == EPERM) subject.open_error = error;
    const int cause = error != 0 ? error : EIO;
    if (const auto broken = first_broken(subject, {"uverbs-node", "rdma-cgroup"}))
        return {subject.open_error != 0 ? subject.open_error : cause,
                fmt::format("cannot open RDMA device {}: {}", port.device, broken->sentence())};
    return {cause, fmt::format("cannot open RDMA device {}: {}", port.device,
                               verbs::errno_text(cause, verbs::Attempt::open_device))};
}

Result<void> open_context(Port& port) {
    const verbs::DeviceList list(*port.api);
    ibv_device* device = list.find(port.device);
    if (device == nullptr) return no_such_device(port, list.error());
    ibv_context* context = port.api->open_device(device);
    if (context == nullptr) return tl::unexpected(open_failure(port, *device, errno));
    port.context = verbs::Context(context, {port.api->close_device, "device context"});

    if (const int error = verbs::query_device(*port.api, context, port.attributes))
        return fail(error, "cannot query RDMA device {}: {}", port.device, rte_strerror(error));
    return {};
}

/// Refuses ports that are not Ethernet. Publishes the link state that ethdev shows until an event.
Result<void> open_port(Port& port) {
    const unsigned ports = port.attributes.orig_attr.phys_port_cnt;
    if (port.ib_port > ports)
        return fail(EINVAL, "{}",
                    diagnosis::no_such_port(port.device, port.ib_port, ports).sentence());
    ibv_port_attr attributes{};
    if (const int error =
            verbs::query_port(*port.api, port.context.get(), port.ib_port, attributes))
        return fail(error, "cannot query {} port {}: {}", port.device, port.ib_port,
                    rte_strerror(error));
    if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET)
        return fail(ENOTSUP, "{}", diagnosis::not_ethernet(port.device, port.ib_port).sentence());
    const rte_eth_link link = link_of(attributes);
    rte_eth_linkstatus_set(port.dev, &link);
    return {};
}

/// Devices may, but need not, report the QP types that they hash for, and the permission is checked
/// only when a QP is created; in a user namespace the kernel asks for more than CAP_NET_RAW there,
/// and then the first QP of a queue is refused, with the reason. If either is in doubt, one is
/// created here, so that the probe fails rather than the first queue.
Result<void> check_raw_packet(const Port& port) {
    if (port.attributes.max_wq_type_rq == 0)
        return fail(ENOTSUP, "{}", diagnosis::no_work_queues(port.device).sentence());
    if (ibv_is_qpt_supported(port.attributes.rss_caps.supported_qpts, IBV_QPT_RAW_PACKET) &&
        diagnosis::Host().capable(CAP_NET_RAW))
        return {};
    ibv_cq_init_attr_ex completions{};
    completions.cqe = 1;
    port.ring_memory->set_domain(completions);
    const verbs::CqEx cq(ibv_create_cq_ex(port.context.get(), &completions),
                         {port.api->destroy_cq});
    if (!cq) {
        const int error = errno;
        return fail(error, "{}: cannot create a CQ: {}", port.device,
                    verbs::errno_text(error, verbs::Attempt::open_device));
    }
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(cq.get());
    attributes.cap.max_send_wr = attributes.cap.max_send_sge = 1;
    const verbs::Qp qp(port.api->create_qp(port.ring_memory->domain(), &attributes),
                       {port.api->destroy_qp, "QP"});
    if (!qp) {
        const int error = errno;
        return fail(error, "{}", diagnosis::no_raw_packets(port.device, error).sentence());
    }
    return {};
}

} // namespace

Result<void> open_device(Port& port) {
    port.device = port.devargs.device;
    port.ib_port = port.devargs.port != 0 ? port.devargs.port : 1;
    if (!port.devargs.iface.empty()) {
        Result<netdev::RdmaPort> found = port.sysfs.rdma_port_of(port.devargs.iface);
        if (!found) return no_such_interface(port, std::move(found.error()));
        port.device = found->device;
        port.ib_port = found->port;
    }
    if (Result<void> done = open_context(port); !done) return done;
    if (Result<void> done = open_port(port); !done) return done;
    ibv_pd* pd = port.api->alloc_pd(port.context.get());
    if (pd == nullptr) {
        const int error = errno;
        return fail(error, "{}: cannot allocate a protection domain: {}", port.device,
                    rte_strerror(error));
    }
    port.pd = verbs::Pd(pd, {port.api->dealloc_pd, "PD"});
    port.ring_heap = std::make_unique<RingHeap>();
    port.ring_memory = std::make_unique<RingMemory>(*port.api, pd, *port.ring_heap);
    if (Result<void> done = check_raw_packet(port); !done) return done;

    if (const Result<std::string> name = port.sysfs.netdev_of(port.device, port.ib_port))
        port.netdev = netdev::Netdev(*name);
    port.if_index = port.netdev.index().value_or(0);
    return {};
}

namespace {
Result<const RingFormat*> with_striding(const Port& port, const RingFormat& format) {
    if (format.striding == nullptr)
        return fail(ENOTSUP, "mprq_en=1: datapath={} has no striding receive queues", format.name);
    const std::string reason = format.striding->reject(*port.api, port.context.get());
    if (!reason.empty()) return fail(ENOTSUP, "mprq_en=1: {} {}", port.device, reason);
    return format.striding;
}

Result<void> check_real_time(const Port& port, const RingFormat& format) {
    if (!port.devargs.real_time || format.stamps_real_time(*port.api, port.context.get()))
        return {};
    return fail(ENOTSUP,
                "rx_timestamp=real: kernel or provider does not translate the clock of {} for "
                "datapath={}; without it time stamps are the device's ticks",
                port.device, format.name);
}
} // namespace

Result<const RingFormat*> choose_format(const Port& port) {
    const bool automatic = port.devargs.datapath == "auto";
    std::string refusals;
    for (const RingFormat* format : ring_formats()) {
        if (!automatic && port.devargs.datapath != format->name) continue;
        const std::string reason = format->reject(*port.api, port.context.get());
        if (reason.empty()) {
            RAWQP_LOG(NOTICE, "%s: datapath %s (%s%s)", port.name.c_str(), format->name,
                      automatic ? "auto: the best for this device" : "as asked for",
                      refusals.c_str());
            if (auto done = check_real_time(port, *format); !done)
                return tl::unexpected(done.error());
            return port.devargs.multi_packet_rx ? with_striding(port, *format) : format;
        }
        refusals += fmt::format("; not {}: {}", format->name, reason);
    }
    return fail(ENOTSUP, "datapath={} cannot drive {}{}", port.devargs.datapath, port.device,
                refusals);
}

} // namespace rawqp
