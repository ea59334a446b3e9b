// SPDX-License-Identifier: BSD-3-Clause
// The vdev driver: from --vdev or hot plug to a port, and back.
#include "drivers/net/rawqp/ethdev/driver/driver.hpp"

#include "drivers/net/rawqp/ethdev/driver/devargs.hpp"
#include "drivers/net/rawqp/ethdev/driver/device.hpp"
#include "drivers/net/rawqp/ethdev/driver/formats.hpp"
#include "drivers/net/rawqp/ethdev/driver/ops.hpp"
#include "drivers/net/rawqp/ethdev/flow/age_timer.hpp"
#include "drivers/net/rawqp/ethdev/flow/ops.hpp"
#include "drivers/net/rawqp/ethdev/flow/port_guard.hpp"
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/memory/memory.hpp"
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"
#include "drivers/net/rawqp/ethdev/meter/meters.hpp"
#include "drivers/net/rawqp/ethdev/netdev/link.hpp"
#include "drivers/net/rawqp/ethdev/port/answers.hpp"
#include "drivers/net/rawqp/ethdev/port/async_events.hpp"
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/port/other_drivers.hpp"
#include "drivers/net/rawqp/ethdev/port/telemetry.hpp"
#include "drivers/net/rawqp/ethdev/presence.hpp"
#include "drivers/net/rawqp/ethdev/process/secondaries.hpp"
#include "drivers/net/rawqp/ethdev/queues/queues.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/secondary/secondary.hpp"
#include "drivers/net/rawqp/ethdev/steering/filters.hpp"
#include "drivers/net/rawqp/ethdev/steering/reta.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"
#include "drivers/net/rawqp/log.hpp"

#include <algorithm>

namespace rawqp {
namespace {

void log_destroy_failure(const char* kind, int error) {
    RAWQP_LOG(ERR, "cannot destroy a %s: %s", kind, rte_strerror(error));
}

/// The netdev's MAC address; a random one if no netdev is visible.
Result<void> set_addresses(Port& port) {
    rte_eth_dev_data& data = *port.dev->data;
    // ethdev frees it with the port, and reads it at any time: a reset keeps it.
    if (data.mac_addrs == nullptr)
        data.mac_addrs = static_cast<rte_ether_addr*>(
            rte_calloc(port.name.c_str(), kMaxMacAddresses, sizeof(rte_ether_addr), 0));
    if (data.mac_addrs == nullptr)
        return fail(ENOMEM, "no memory for {} MAC addresses", kMaxMacAddresses);
    if (!port.netdev.present()) {
        if (!port.random_mac) rte_eth_random_addr(port.random_mac.emplace().addr_bytes);
        data.mac_addrs[0] = *port.random_mac;
        RAWQP_LOG(
            NOTICE,
            "%s: the network interface of %s port %u is not in this network namespace: the MAC "
            "address is random, and MTU and link cannot be set from here",
            port.name.c_str(), port.device.c_str(), port.ib_port);
        return {};
    }
    const Result<netdev::MacAddress> mac = port.netdev.mac();
    if (!mac) return tl::unexpected(mac.error());
    std::copy(mac->begin(), mac->end(), data.mac_addrs[0].addr_bytes);
    const Result<uint32_t> mtu = port.netdev.mtu();
    if (!mtu) return tl::unexpected(mtu.error());
    data.mtu = static_cast<uint16_t>(std::min<uint32_t>(*mtu, kMaxMtu));
    return {};
}

class PortRxQueues final : public RxQueueSet {
  public:
    explicit PortRxQueues(Port& port) : port_(port) {}
    [[nodiscard]] uint16_t count() const override { return port_.dev->data->nb_rx_queues; }
    [[nodiscard]] ibv_wq* wq(uint16_t queue) const override {
        const bool there = queue < port_.rx_queues.size() && port_.rx_queues[queue];
        return there ? port_.rx_queues[queue]->wq.get() : nullptr;
    }
    [[nodiscard]] size_t table_entries() const override {
        return std::max<size_t>(reta_size(port_), 1);
    }
    void use_marks() override { rawqp::use_marks(port_); }
    void name_tunnels(uint16_t queue, uint32_t type) override {
        if (queue >= port_.rx_queues.size() || !port_.rx_queues[queue]) return;
        __atomic_store_n(&port_.rx_queues[queue]->ring->tunnel_type, type, __ATOMIC_RELAXED);
    }
    void use_metadata() override { rawqp::use_metadata(port_); }

  private:
    Port& port_;
};

Result<void> make_steering(Port& port) {
    port.rx_queue_set = std::make_unique<PortRxQueues>(port);
    port.rss_qps = std::make_unique<RssQps>(*port.api, port.context.get(), port.pd.get(),
                                            *port.rx_queue_set, port.format->rx_hash_qp);
    Result<std::unique_ptr<Steering>> steering =
        Steering::make(*port.api, *port.rss_qps, port.ib_port, port.devargs.flow_engine);
    if (!steering) return tl::unexpected(std::move(steering.error()));
    port.steering = std::move(*steering);
    port.filters = std::make_unique<Filters>(*port.steering);
    std::unique_ptr<PortGuard> guard;
    if (port.devargs.port_guard) {
        auto made = PortGuard::make();
        if (!made) return tl::unexpected(std::move(made.error()));
        guard = std::move(*made);
    }
    port.meters =
        std::make_unique<Meters>(MeterDevice(*port.api, port.steering->devx(), port.context.get(),
                                             port.pd.get(), port.ib_port),
                                 *port.steering);
    port.flows = std::make_unique<FlowTable>(*port.steering, *port.rx_queue_set, std::move(guard),
                                             port.meters.get());
    port.age_timer = std::make_unique<AgeTimer>(port);
    port.flows->on_ages([timer = port.age_timer.get()] { timer->arm(); });
    return {};
}

template <size_t kSize> void copy_text(std::array<char, kSize>& to, const std::string& from) {
    rte_strscpy(to.data(), from.c_str(), kSize);
}

/// Publishes what other processes read of a finished port.
void publish(Port& port, const std::string& sysfs) {
    SharedPort& shared = port.shared;
    copy_text(shared.device, port.device);
    copy_text(shared.netdev, port.netdev.name());
    copy_text(shared.sysfs, sysfs);
    copy_text(shared.firmware, port.attributes.orig_attr.fw_ver);
    shared.ib_port = port.ib_port;
    shared.mrs = &port.memory->table();
    shared.set_ring_format(*port.format, ring_formats());
    if (port.format->tx_map == nullptr)
        copy_text(shared.not_shareable,
                  fmt::format("the rings of datapath={} belong to verbs objects of the primary "
                              "process",
                              port.format->name));
    else if (!port.ring_memory->in_dpdk_memory())
        copy_text(shared.not_shareable,
                  "the provider keeps its rings in memory of the primary process");
    publish_info(port);
}

Result<void> build(Port& port) {
    if (Result<void> done = open_device(port); !done) return done;
    port.speeds = read_speeds(port);
    Result<const RingFormat*> format = choose_format(port);
    if (!format) return tl::unexpected(std::move(format.error()));
    port.format = *format;
    if (port.format->tx_waits)
        port.send_clock =
            find_send_clock(*port.api, port.context.get(), port.attributes.hca_core_clock);
    port.memory =
        std::make_unique<Memory>(*port.api, port.pd.get(), port.name, port.dev->data->port_id);
    if (Result<void> done = port.memory->follow(); !done) return done;
    if (Result<void> done = make_steering(port); !done) return done;
    if (port.format->rx_lro && port.steering->has_lro()) port.lro = find_lro(port.steering->devx());
    if (Result<void> done = set_addresses(port); !done) return done;
    port.other_drivers = std::make_unique<OtherDrivers>(port);
    if (Result<void> done = port.other_drivers->watch(); !done) return done;
    port.events = std::make_unique<AsyncEvents>(port);
    return port.events->start();
}

int remove(rte_vdev_device* vdev) noexcept {
    // Not by name, which a primary that has closed the port has erased for the others as well.
    const uint16_t id = rte_eth_find_next_of(0, &vdev->device);
    if (id == RTE_MAX_ETHPORTS) return 0; // closed by the application already
    const bool ours = rte_eal_process_type() == RTE_PROC_PRIMARY;
    if (ours && rte_eth_devices[id].data->dev_started != 0) {
        const int error = rte_eth_dev_stop(id);
        if (error != 0) return error;
    }
    return rte_eth_dev_close(id);
}

int probe(rte_vdev_device* vdev) noexcept {
    const char* name = rte_vdev_device_name(vdev);
    if (rte_eal_process_type() != RTE_PROC_PRIMARY)
        return report(name, attach_secondary(vdev, ring_formats()));
    Result<Devargs> devargs = parse_devargs(rte_vdev_device_args(vdev));
    if (!devargs) return report(name, devargs.error());
    const Result<const verbs::Api*> api = verbs::load();
    if (!api) return report(name, api.error());
    verbs::set_destroy_failure_handler(log_destroy_failure);

    rte_eth_dev* dev = rte_eth_vdev_allocate(vdev, sizeof(SharedPort));
    if (dev == nullptr) return report(name, {ENOMEM, "ethdev has no room for another port"});
    if (const Result<void> done = attach(dev, **api, std::move(*devargs)); !done) {
        rte_eth_dev_release_port(dev);
        return report(name, done.error());
    }
    rte_eth_dev_probing_finish(dev);
    return 0;
}

/// The memory of a port in the process that registers it.
Result<Memory*> memory_of(rte_vdev_device* vdev) {
    if (rte_eal_process_type() != RTE_PROC_PRIMARY)
        return fail(ENOTSUP, "memory is mapped and unmapped by the primary process");
    rte_eth_dev* const dev = rte_eth_dev_allocated(rte_vdev_device_name(vdev));
    if (dev == nullptr || dev->process_private == nullptr)
        return fail(ENODEV, "the port is closed");
    return Port::of(dev).memory.get();
}

int report_by_errno(rte_vdev_device* vdev, const Result<void>& result) {
    if (result) return 0;
    rte_errno = -report(rte_vdev_device_name(vdev), result.error());
    return -1;
}

/// The device knows memory by its virtual address: the IOVA means nothing here.
int dma_map(rte_vdev_device* vdev, void* address, uint64_t /*iova*/, size_t length) noexcept {
    return report_by_errno(vdev, memory_of(vdev).and_then([&](Memory* memory) {
        return memory->map(range_of(address, length));
    }));
}

int dma_unmap(rte_vdev_device* vdev, void* address, uint64_t /*iova*/, size_t length) noexcept {
    return report_by_errno(vdev, memory_of(vdev).map([&](Memory* memory) {
        memory->remove(range_of(address, length), Memory::Extent::touching);
    }));
}

constexpr rte_vdev_driver make_driver() {
    rte_vdev_driver driver{};
    driver.probe = probe;
    driver.remove = remove;
    driver.dma_map = dma_map;
    driver.dma_unmap = dma_unmap;
    return driver;
}
constinit rte_vdev_driver rawqp_driver = make_driver();

/// For a port that a reset could not bring back: it can be closed and unplugged, for which
/// applications ask what device it is on; ethdev refuses everything else.
constexpr eth_dev_ops make_lost_ops() {
    eth_dev_ops ops{};
    ops.dev_close = dev_close;
    ops.dev_infos_get = [](rte_eth_dev*, rte_eth_dev_info*) noexcept { return 0; }; // ethdev knows
    return ops;
}
constinit const eth_dev_ops kLostOps = make_lost_ops();

/// What applications have set on a port is lost with it.
void forget_configuration(rte_eth_dev_data& data) {
    data.dev_configured = 0;  // or it could be started without queues
    data.flow_configured = 0; // or templates could be made without flow queues
    data.nb_rx_queues = data.nb_tx_queues = 0;
    data.promiscuous = 0;
    data.all_multicast = 0;
    data.vlan_filter_conf = {};
    std::fill_n(data.mac_addrs + 1, kMaxMacAddresses - 1, rte_ether_addr{}); // besides its own
}

} // namespace

Result<void> attach(rte_eth_dev* dev, const verbs::Api& api, Devargs devargs,
                    const std::string& sysfs, std::optional<rte_ether_addr> random_mac) {
    auto& shared = *new (dev->data->dev_private) SharedPort;
    auto port = std::make_unique<Port>(dev, shared);
    port->api = &api;
    port->devargs = std::move(devargs);
    port->sysfs = netdev::Sysfs(sysfs);
    port->random_mac = random_mac;
    dev->data->mtu = RTE_ETHER_MTU;
    if (Result<void> done = build(*port); !done) return done;

    dev->dev_ops = &kPortOps;
    set_flow_queue_ops(*dev);
    dev->data->numa_node = port->sysfs.numa_node(port->device);
    dev->rx_pkt_burst = rte_eth_pkt_burst_dummy;
    dev->tx_pkt_burst = rte_eth_pkt_burst_dummy;
    // Operations on flows lock the port themselves.
    dev->data->dev_flags |= RTE_ETH_DEV_INTR_LSC | RTE_ETH_DEV_INTR_RMV |
                            RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS | RTE_ETH_DEV_FLOW_OPS_THREAD_SAFE;
    set_ring_host(dev->data->port_id, port.get());
    dev->process_private = port.get();
    publish(*port, sysfs);
    port->secondaries = std::make_unique<Secondaries>(*port);
    port->answers = std::make_unique<Answers>(*port);
    port->telemetry = std::make_unique<TelemetryEntry>(*port);
    (void)port.release(); // dev_close owns it
    Presence::of(*dev).begin();
    return {};
}

int dev_reset(rte_eth_dev* dev) noexcept {
    const Port& old = Port::of(dev);
    const verbs::Api& api = *old.api;
    Devargs devargs = old.devargs;
    const std::string sysfs = old.sysfs.root();
    const std::string name = old.name;
    const std::optional<rte_ether_addr> random_mac = old.random_mac;
    dev_close(dev);
    forget_configuration(*dev->data);
    const Result<void> done = attach(dev, api, std::move(devargs), sysfs, random_mac);
    if (done) {
        dev->state = RTE_ETH_DEV_ATTACHED; // ethdev may have seen the former one as removed
        return 0;
    }
    dev->dev_ops = &kLostOps;
    unset_flow_queue_ops(*dev);
    return report(
        name, {done.error().code, fmt::format("cannot be reset, close it: {}", done.error().what)});
}

} // namespace rawqp

using rawqp::rawqp_driver;
RTE_PMD_REGISTER_VDEV(net_rawqp, rawqp_driver);
