// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/driver/ops.hpp"

#include "drivers/net/rawqp/ethdev/driver/driver.hpp"
#include "drivers/net/rawqp/ethdev/flow/ops.hpp"
#include "drivers/net/rawqp/ethdev/meter/ops.hpp"
#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/presence.hpp"
#include "drivers/net/rawqp/ethdev/queues/ops.hpp"
#include "drivers/net/rawqp/ethdev/steering/ops.hpp"

#include <type_traits>

namespace rawqp {
namespace {

/// The operation, if there is a port, which then stays until it returns; refused during a reset or
/// a close.
template <auto Operation> struct WhilePresent;
template <class R, class Dev, class... Args, R (*Operation)(Dev*, Args...) noexcept>
struct WhilePresent<Operation> {
    static R call(Dev* dev, Args... args) noexcept {
        const Presence::Visit visit(Presence::of(*dev));
        if (visit) return Operation(dev, args...);
        if constexpr (!std::is_void_v<R>) return -EBUSY;
    }
};
template <auto Operation> constexpr auto kPresent = WhilePresent<Operation>::call;

/// ethdev would take a refusal for a removal, and keep that in mind.
int is_removed_while_present(rte_eth_dev* dev) noexcept {
    const Presence::Visit visit(Presence::of(*dev));
    return visit ? is_removed(dev) : 0;
}

/// The same with Port::control held.
template <auto Operation> struct Locked;
template <class R, class Dev, class... Args, R (*Operation)(Dev*, Args...) noexcept>
struct Locked<Operation> {
    static R call(Dev* dev, Args... args) noexcept {
        const std::lock_guard lock(Port::of(dev).control);
        return Operation(dev, args...);
    }
};
template <auto Operation> constexpr auto kLocked = kPresent<Locked<Operation>::call>;

constexpr eth_dev_ops make_ops() {
    eth_dev_ops ops{};
    ops.dev_configure = kLocked<dev_configure>;
    ops.dev_start = kLocked<dev_start>;
    ops.dev_stop = kLocked<dev_stop>;
    ops.dev_close = dev_close;
    ops.dev_reset = dev_reset;
    ops.eth_dev_priv_dump = kLocked<priv_dump>; // on telemetry's thread, too
    ops.dev_infos_get = kPresent<dev_info_get>;
    ops.eth_rx_descriptor_dump = kLocked<rx_descriptor_dump>;
    ops.eth_tx_descriptor_dump = kLocked<tx_descriptor_dump>;
    ops.dev_supported_ptypes_get = compat::supported_ptypes<supported_ptypes_get>;
    ops.rx_burst_mode_get = kLocked<rx_burst_mode_get>; // on telemetry's thread, too
    ops.tx_burst_mode_get = kLocked<tx_burst_mode_get>;
    ops.rxq_info_get = kPresent<rxq_info_get>;
    ops.txq_info_get = kPresent<txq_info_get>;
    ops.fw_version_get = kPresent<fw_version_get>;
    ops.is_removed = is_removed_while_present;
    ops.rx_queue_setup = kLocked<rx_queue_setup>;
    ops.rx_queue_release = kLocked<rx_queue_release>;
    ops.rx_queue_start = kLocked<rx_queue_start>;
    ops.rx_queue_stop = kLocked<rx_queue_stop>;
    ops.rx_queue_intr_enable = rx_queue_intr_enable;
    ops.rx_queue_intr_disable = rx_queue_intr_disable;
    ops.get_monitor_addr = get_monitor_addr;
    ops.read_clock = read_clock;
    ops.timesync_enable = kLocked<timesync_enable>;
    ops.timesync_disable = kLocked<timesync_disable>;
    ops.timesync_read_rx_timestamp = kLocked<timesync_read_rx_timestamp>;
    ops.timesync_read_tx_timestamp = kLocked<timesync_read_tx_timestamp>;
    ops.timesync_adjust_time = kLocked<timesync_adjust_time>;
    compat::set_adjust_freq(ops, kLocked<timesync_adjust_freq>);
    ops.timesync_write_time = kLocked<timesync_write_time>;
    ops.timesync_read_time = kLocked<timesync_read_time>;
    ops.tx_queue_setup = kLocked<tx_queue_setup>;
    ops.tx_queue_release = kLocked<tx_queue_release>;
    ops.tx_queue_start = kLocked<tx_queue_start>;
    ops.tx_queue_stop = kLocked<tx_queue_stop>;
    ops.set_queue_rate_limit = kLocked<set_queue_rate_limit>;
    ops.tx_done_cleanup = tx_done_cleanup;
    ops.link_update = kPresent<link_update>;
    ops.dev_set_link_up = kPresent<set_link_up>;
    ops.dev_set_link_down = kPresent<set_link_down>;
    // What steers packets is shared with flow rules, which other threads may make concurrently.
    ops.promiscuous_enable = kLocked<promiscuous_enable>;
    ops.promiscuous_disable = kLocked<promiscuous_disable>;
    ops.allmulticast_enable = kLocked<allmulticast_enable>;
    ops.allmulticast_disable = kLocked<allmulticast_disable>;
    ops.mac_addr_add = kLocked<mac_addr_add>;
    ops.mac_addr_remove = kLocked<mac_addr_remove>;
    ops.mac_addr_set = kLocked<mac_addr_set>;
    ops.set_mc_addr_list = kLocked<set_mc_addr_list>;
    ops.vlan_filter_set = kLocked<vlan_filter_set>;
    ops.vlan_offload_set = kLocked<vlan_offload_set>;
    ops.vlan_strip_queue_set = kLocked<vlan_strip_queue_set>;
    ops.udp_tunnel_port_add = kPresent<udp_tunnel_port_add>;
    ops.mtu_set = kLocked<mtu_set>;
    ops.flow_ctrl_get = kPresent<flow_ctrl_get>;
    ops.flow_ctrl_set = kPresent<flow_ctrl_set>;
    ops.fec_get_capability = kPresent<fec_get_capability>;
    ops.fec_get = kPresent<fec_get>;
    ops.fec_set = kPresent<fec_set>;
    ops.get_module_info = kPresent<get_module_info>;
    ops.get_module_eeprom = kPresent<get_module_eeprom>;
    ops.dev_led_on = kPresent<led_on>;
    ops.dev_led_off = kPresent<led_off>;
    ops.reta_update = kLocked<reta_update>;
    ops.reta_query = kPresent<reta_query>;
    ops.rss_hash_update = kLocked<rss_hash_update>;
    ops.rss_hash_conf_get = kPresent<rss_hash_conf_get>;
    ops.flow_ops_get = flow_ops_get;
    ops.mtr_ops_get = meter_ops_get;
    // On telemetry's thread, too, while a control call may replace rings.
    ops.stats_get = compat::stats<kLocked<stats_get>>;
    ops.stats_reset = kLocked<stats_reset>;
    ops.xstats_get = kLocked<xstats_get>;
    ops.xstats_get_names = kLocked<xstats_get_names>;
    ops.xstats_reset = kLocked<xstats_reset>;
    return ops;
}

} // namespace

constinit const eth_dev_ops kPortOps = make_ops();

} // namespace rawqp
