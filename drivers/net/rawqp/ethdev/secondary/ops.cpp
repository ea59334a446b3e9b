// SPDX-License-Identifier: BSD-3-Clause
// What a secondary process may do with a port, and the refusal of everything else.
#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/secondary/refusal.hpp"
#include "drivers/net/rawqp/ethdev/secondary/secondary.hpp"
#include "drivers/net/rawqp/ethdev/steering/ops.hpp"
#include "drivers/net/rawqp/log.hpp"

namespace rawqp {

int secondary::refuse(const rte_eth_dev* dev, const char* what) {
    RAWQP_LOG(ERR, "%s: %s is for the primary process, this is a secondary one",
              ProcessPort::of(dev).name.c_str(), what);
    return -EPERM;
}

namespace {

using secondary::refuse, secondary::refused, secondary::Refused;

/// What all processes do alike, as long as the port exists.
template <auto Operation> struct WhileAlive;
template <class Dev, class... Args, int (*Operation)(Dev*, Args...) noexcept>
struct WhileAlive<Operation> {
    static int call(Dev* dev, Args... args) noexcept {
        const SecondaryPort::Visit visit(SecondaryPort::of(dev));
        return visit ? Operation(dev, args...) : -EIO;
    }
};
template <class... Args, void (*Operation)(rte_eth_dev*, Args...) noexcept>
struct WhileAlive<Operation> {
    static void call(rte_eth_dev* dev, Args... args) noexcept {
        if (const SecondaryPort::Visit visit(SecondaryPort::of(dev)); visit)
            Operation(dev, args...);
    }
};
template <auto Operation> constexpr auto kWhileAlive = WhileAlive<Operation>::call;

int info_get(rte_eth_dev* dev, rte_eth_dev_info* info) noexcept {
    rte_device* const device = info->device; // ethdev has put it there
    *info = SecondaryPort::of(dev).shared.info;
    info->device = device;
    return 0;
}

int link_update(rte_eth_dev* dev, int) noexcept {
    SecondaryPort& port = SecondaryPort::of(dev);
    const rte_eth_link before = dev->data->dev_link;
    if (const int error = port.read_link(); error != 0 && error != EAGAIN) {
        const rte_eth_link none{};
        return port.alive() ? -error : rte_eth_linkstatus_set(dev, &none);
    }
    rte_eth_link now{};
    rte_eth_linkstatus_get(dev, &now);
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it loses the union
    return now.link_status == before.link_status ? -1 : 0;
}

int rx_burst_mode(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept {
    const SecondaryPort& port = SecondaryPort::of(dev);
    if (load_state(port.shared.rx[queue].state) == QueueState::absent) return -EINVAL;
    rte_strscpy(mode->info, port.rx_burst_name(), sizeof mode->info);
    return 0;
}

int tx_burst_mode(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept {
    const SecondaryPort& port = SecondaryPort::of(dev);
    if (load_state(port.shared.tx[queue].state) == QueueState::absent) return -EINVAL;
    rte_strscpy(mode->info, port.tx_burst_name(), sizeof mode->info);
    return 0;
}

int device_clock(rte_eth_dev* dev, uint64_t* time) noexcept {
    return -SecondaryPort::of(dev).device_clock(*time);
}

int stop(rte_eth_dev* dev) noexcept {
    SecondaryPort::of(dev).install(); // ethdev has put dummies there
    return refuse(dev, "rte_eth_dev_stop");
}

int close(rte_eth_dev* dev) noexcept {
    const std::unique_ptr<SecondaryPort> port(&SecondaryPort::of(dev));
    dev->data = &port->data_of_closed();
    dev->process_private = nullptr;
    return 0;
}

/// Whether the device is gone, or the primary's port: the primary closed it, or died.
int removed(rte_eth_dev* dev) noexcept {
    const SecondaryPort::Visit visit(SecondaryPort::of(dev));
    return visit ? is_removed(dev) : 1;
}

/// There is none for rte_eth_dev_configure, rte_eth_rx_queue_setup, rte_eth_tx_queue_setup and
/// rte_eth_dev_mac_addr_remove: ethdev removes the primary's objects from the shared data before it
/// calls the operation, or whatever that returns.
constexpr eth_dev_ops make_ops() {
    eth_dev_ops ops{};
    ops.dev_infos_get = kWhileAlive<info_get>;
    ops.dev_supported_ptypes_get = compat::supported_ptypes<supported_ptypes_get>;
    ops.rx_burst_mode_get = kWhileAlive<rx_burst_mode>;
    ops.tx_burst_mode_get = kWhileAlive<tx_burst_mode>;
    ops.rxq_info_get = kWhileAlive<rxq_info_get>;
    ops.txq_info_get = kWhileAlive<txq_info_get>;
    ops.fw_version_get = kWhileAlive<fw_version_get>;
    ops.is_removed = removed;
    ops.link_update = link_update;
    ops.flow_ctrl_get = kWhileAlive<flow_ctrl_get>;
    ops.fec_get_capability = kWhileAlive<fec_get_capability>;
    ops.fec_get = kWhileAlive<fec_get>;
    ops.get_module_info = kWhileAlive<get_module_info>;
    ops.get_module_eeprom = kWhileAlive<get_module_eeprom>;
    ops.eth_dev_priv_dump = kWhileAlive<priv_dump>;
    ops.eth_rx_descriptor_dump = kWhileAlive<rx_descriptor_dump>;
    ops.eth_tx_descriptor_dump = kWhileAlive<tx_descriptor_dump>;
    ops.reta_query = kWhileAlive<reta_query>;
    ops.rss_hash_conf_get = kWhileAlive<rss_hash_conf_get>;
    ops.flow_ops_get = secondary::flow_ops_get;
    ops.mtr_ops_get = secondary::meter_ops_get;
    ops.stats_get = compat::stats<kWhileAlive<stats_get>>;
    ops.stats_reset = kWhileAlive<stats_reset>;
    ops.xstats_get = kWhileAlive<xstats_get>;
    ops.xstats_get_names = kWhileAlive<xstats_get_names>;
    ops.xstats_reset = kWhileAlive<xstats_reset>;
    ops.read_clock = device_clock;
    ops.tx_done_cleanup = guarded_tx_done_cleanup;
    ops.dev_close = close;
    ops.dev_stop = stop;
    refused<"rte_eth_dev_reset">(ops.dev_reset);
    refused<"rte_eth_dev_start">(ops.dev_start);
    refused<"rte_eth_dev_rx_queue_start">(ops.rx_queue_start);
    refused<"rte_eth_dev_rx_queue_stop">(ops.rx_queue_stop);
    refused<"rte_eth_dev_tx_queue_start">(ops.tx_queue_start);
    refused<"rte_eth_dev_tx_queue_stop">(ops.tx_queue_stop);
    refused<"rte_eth_dev_rx_intr_enable">(ops.rx_queue_intr_enable);
    refused<"rte_eth_dev_rx_intr_disable">(ops.rx_queue_intr_disable);
    refused<"rte_eth_timesync_enable">(ops.timesync_enable);
    refused<"rte_eth_timesync_disable">(ops.timesync_disable);
    refused<"rte_eth_timesync_read_rx_timestamp">(ops.timesync_read_rx_timestamp);
    refused<"rte_eth_timesync_read_tx_timestamp">(ops.timesync_read_tx_timestamp);
    refused<"rte_eth_timesync_adjust_time">(ops.timesync_adjust_time);
    compat::set_adjust_freq(
        ops, Refused<"rte_eth_timesync_adjust_freq", int (*)(rte_eth_dev*, int64_t)>::call);
    refused<"rte_eth_timesync_write_time">(ops.timesync_write_time);
    refused<"rte_eth_timesync_read_time">(ops.timesync_read_time);
    refused<"rte_eth_set_queue_rate_limit">(ops.set_queue_rate_limit);
    refused<"rte_eth_dev_set_link_up">(ops.dev_set_link_up);
    refused<"rte_eth_dev_set_link_down">(ops.dev_set_link_down);
    refused<"rte_eth_promiscuous_enable">(ops.promiscuous_enable);
    refused<"rte_eth_promiscuous_disable">(ops.promiscuous_disable);
    refused<"rte_eth_allmulticast_enable">(ops.allmulticast_enable);
    refused<"rte_eth_allmulticast_disable">(ops.allmulticast_disable);
    refused<"rte_eth_dev_mac_addr_add">(ops.mac_addr_add);
    refused<"rte_eth_dev_default_mac_addr_set">(ops.mac_addr_set);
    refused<"rte_eth_dev_set_mc_addr_list">(ops.set_mc_addr_list);
    refused<"rte_eth_dev_vlan_filter">(ops.vlan_filter_set);
    refused<"rte_eth_dev_set_vlan_offload">(ops.vlan_offload_set);
    refused<"rte_eth_dev_set_vlan_strip_on_queue">(ops.vlan_strip_queue_set);
    refused<"rte_eth_dev_udp_tunnel_port_add">(ops.udp_tunnel_port_add);
    refused<"rte_eth_dev_set_mtu">(ops.mtu_set);
    refused<"rte_eth_dev_flow_ctrl_set">(ops.flow_ctrl_set);
    refused<"rte_eth_fec_set">(ops.fec_set);
    refused<"rte_eth_led_on">(ops.dev_led_on);
    refused<"rte_eth_led_off">(ops.dev_led_off);
    refused<"rte_eth_dev_rss_reta_update">(ops.reta_update);
    refused<"rte_eth_dev_rss_hash_update">(ops.rss_hash_update);
    return ops;
}

} // namespace

constinit const eth_dev_ops kSecondaryOps = make_ops();

} // namespace rawqp
