// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/driver/device.hpp"

#include "drivers/net/rawqp/ethdev/driver/formats.hpp"
#include "drivers/net/rawqp/ethdev/errno_text.hpp"
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"
#include "drivers/net/rawqp/ethdev/netdev/link.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>
#include <linux/capability.h>
#include <sys/syscall.h>

namespace rawqp {
namespace {

/// libibverbs' list of devices, freed with this object.
class DeviceList {
  public:
    explicit DeviceList(const verbs::Api& api)
        : api_(api), list_(api.get_device_list(&count_)), error_(list_ == nullptr ? errno : 0) {}
    ~DeviceList() {
        if (list_ != nullptr) api_.free_device_list(list_);
    }
    DeviceList(const DeviceList&) = delete;
    DeviceList& operator=(const DeviceList&) = delete;

    [[nodiscard]] int error() const { return error_; }
    [[nodiscard]] ibv_device* find(const std::string& name) const {
        for (int i = 0; i < count_; ++i)
            if (name == api_.get_device_name(list_[i])) return list_[i];
        return nullptr;
    }
    [[nodiscard]] std::string names() const {
        std::string names;
        for (int i = 0; i < count_; ++i)
            names += fmt::format("{}{}", names.empty() ? "" : ", ", api_.get_device_name(list_[i]));
        return names;
    }

  private:
    const verbs::Api& api_;
    int count_ = 0;
    ibv_device** list_;
    int error_;
};

tl::unexpected<Error> no_such_device(const Port& port, const DeviceList& list) {
    if (list.error() != 0)
        return fail(list.error(),
                    "cannot list RDMA devices: {}: is the kernel module ib_uverbs loaded "
                    "(modprobe ib_uverbs)?",
                    rte_strerror(list.error()));
    const std::vector<std::string> kernel = port.sysfs.rdma_devices();
    if (std::find(kernel.begin(), kernel.end(), port.device) != kernel.end())
        return fail(ENODEV,
                    "RDMA device {} is known to the kernel, but libibverbs cannot use it: its user "
                    "space provider is missing (Debian package ibverbs-providers), or ib_uverbs is "
                    "not loaded",
                    port.device);
    const std::string names = list.names();
    if (names.empty())
        return fail(
            ENODEV,
            "there is no RDMA device {}, nor any other: no RDMA NIC, or the kernel module for "
            "it (mlx5_ib, mlx4_ib, mana_ib ...) is not loaded",
            port.device);
    return fail(ENODEV, "there is no RDMA device {}: there are {}", port.device, names);
}

/// Why the device node cannot be opened. libibverbs looks for the node in other places when the
/// first open fails, and returns the last errno of that search: ask again for the first.
Error open_failure(const std::string& name, const ibv_device& device, int error) {
    const std::string node = fmt::format("/dev/infiniband/{}", device.dev_name);
    const bool refused = error == EACCES || error == EPERM;
    const int cause = refused || access(node.c_str(), R_OK | W_OK) == 0 ? error : errno;
    switch (cause) {
    case EACCES:
    case EPERM:
        return {cause, fmt::format("cannot open RDMA device {}: no permission for {}: run as "
                                   "root or as a member of its group",
                                   name, node)};
    case ENOENT:
    case ENXIO:
        return {cause, fmt::format("cannot open RDMA device {}: {} is missing: a container "
                                   "must be given /dev/infiniband",
                                   name, node)};
    default:
        return {error != 0 ? error : EIO,
                fmt::format("cannot open RDMA device {}: {}", name,
                            errno_text(error != 0 ? error : EIO, Attempt::open_device))};
    }
}

Result<void> open_context(Port& port) {
    const DeviceList list(*port.api);
    ibv_device* device = list.find(port.device);
    if (device == nullptr) return no_such_device(port, list);
    ibv_context* context = port.api->open_device(device);
    if (context == nullptr) return tl::unexpected(open_failure(port.device, *device, errno));
    port.context = verbs::Context(context, {port.api->close_device, "device context"});

    if (const int error = verbs::query_device(*port.api, context, port.attributes))
        return fail(error, "cannot query RDMA device {}: {}", port.device, rte_strerror(error));
    return {};
}

/// Refuses ports that are not Ethernet. Publishes the link state that ethdev shows until an event.
Result<void> open_port(Port& port) {
    const unsigned ports = port.attributes.orig_attr.phys_port_cnt;
    if (port.ib_port > ports)
        return fail(EINVAL, "RDMA device {} has no port {}: it has {}", port.device, port.ib_port,
                    ports == 1 ? "port 1 only" : fmt::format("ports 1 to {}", ports));
    ibv_port_attr attributes{};
    if (const int error =
            verbs::query_port(*port.api, port.context.get(), port.ib_port, attributes))
        return fail(error, "cannot query {} port {}: {}", port.device, port.ib_port,
                    rte_strerror(error));
    if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET)
        return fail(
            ENOTSUP,
            "{} port {} is an InfiniBand port: raw packets need Ethernet (a ConnectX VPI port "
            "is switched by mlxconfig, LINK_TYPE_P{}=2)",
            port.device, port.ib_port, port.ib_port);
    const rte_eth_link link = link_of(attributes);
    rte_eth_linkstatus_set(port.dev, &link);
    return {};
}

/// Whether this process has CAP_NET_RAW. In a user namespace the kernel asks for more: then the
/// first QP of a queue is refused, with the reason.
bool may_send_raw() {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
    return syscall(SYS_capget, &header, sets) == 0 &&
           (sets[CAP_TO_INDEX(CAP_NET_RAW)].effective & CAP_TO_MASK(CAP_NET_RAW)) != 0;
}

/// Devices may, but need not, report the QP types that they hash for, and the permission is checked
/// only when a QP is created. If either is in doubt, one is created here, so that the probe fails
/// rather than the first queue.
Result<void> check_raw_packet(const Port& port) {
    if (port.attributes.max_wq_type_rq == 0)
        return fail(ENOTSUP, "{} has no receive WQs (ibv_create_wq), which the driver needs",
                    port.device);
    if (ibv_is_qpt_supported(port.attributes.rss_caps.supported_qpts, IBV_QPT_RAW_PACKET) &&
        may_send_raw())
        return {};
    ibv_cq_init_attr_ex completions{};
    completions.cqe = 1;
    port.ring_memory->set_domain(completions);
    const verbs::CqEx cq(ibv_create_cq_ex(port.context.get(), &completions),
                         {port.api->destroy_cq});
    if (!cq) {
        const int error = errno;
        return fail(error, "{}: cannot create a CQ: {}", port.device,
                    errno_text(error, Attempt::open_device));
    }
    ibv_qp_init_attr attributes{};
    attributes.qp_type = IBV_QPT_RAW_PACKET;
    attributes.send_cq = attributes.recv_cq = ibv_cq_ex_to_cq(cq.get());
    attributes.cap.max_send_wr = attributes.cap.max_send_sge = 1;
    const verbs::Qp qp(port.api->create_qp(port.ring_memory->domain(), &attributes),
                       {port.api->destroy_qp, "QP"});
    if (!qp) {
        const int error = errno;
        return fail(error, "{} refuses RAW_PACKET QPs: {}", port.device,
                    errno_text(error, Attempt::create_raw_qp));
    }
    return {};
}

} // namespace

Result<void> open_device(Port& port) {
    port.device = port.devargs.device;
    port.ib_port = port.devargs.port != 0 ? port.devargs.port : 1;
    if (!port.devargs.iface.empty()) {
        Result<netdev::RdmaPort> found = port.sysfs.rdma_port_of(port.devargs.iface);
        if (!found) return tl::unexpected(std::move(found.error()));
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
    port.ring_memory = std::make_unique<RingMemory>(*port.api, pd);
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
