// SPDX-License-Identifier: BSD-3-Clause
// The driver's ethdev operations, as the rte_eth_* function of the same name documents them. ethdev
// calls them on control threads, one at a time per port. Queue set-up and release: queues.hpp.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"

namespace rawqp {

extern const eth_dev_ops kPortOps;

// port.cpp
int dev_configure(rte_eth_dev* dev) noexcept;
int dev_start(rte_eth_dev* dev) noexcept;
int dev_stop(rte_eth_dev* dev) noexcept;
int dev_close(rte_eth_dev* dev) noexcept;

// info.cpp
int dev_info_get(rte_eth_dev* dev, rte_eth_dev_info* info) noexcept;
const uint32_t* supported_ptypes_get(rte_eth_dev* dev) noexcept;
int rx_burst_mode_get(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept;
int tx_burst_mode_get(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept;
void rxq_info_get(rte_eth_dev* dev, uint16_t queue, rte_eth_rxq_info* info) noexcept;
void txq_info_get(rte_eth_dev* dev, uint16_t queue, rte_eth_txq_info* info) noexcept;
/// The device clock that RTE_ETH_RX_OFFLOAD_TIMESTAMP reports.
int read_clock(rte_eth_dev* dev, uint64_t* clock) noexcept;
int fw_version_get(rte_eth_dev* dev, char* version, size_t size) noexcept;

// link.cpp
int link_update(rte_eth_dev* dev, int wait) noexcept;
int set_link_up(rte_eth_dev* dev) noexcept;
int set_link_down(rte_eth_dev* dev) noexcept;

// mac.cpp
int promiscuous_enable(rte_eth_dev* dev) noexcept;
int promiscuous_disable(rte_eth_dev* dev) noexcept;
int allmulticast_enable(rte_eth_dev* dev) noexcept;
int allmulticast_disable(rte_eth_dev* dev) noexcept;
int mac_addr_add(rte_eth_dev* dev, rte_ether_addr* mac, uint32_t index, uint32_t pool) noexcept;
void mac_addr_remove(rte_eth_dev* dev, uint32_t index) noexcept;
int mac_addr_set(rte_eth_dev* dev, rte_ether_addr* mac) noexcept;
int set_mc_addr_list(rte_eth_dev* dev, rte_ether_addr* groups, uint32_t count) noexcept;
int vlan_filter_set(rte_eth_dev* dev, uint16_t vlan, int on) noexcept;

// vlan.cpp
int vlan_offload_set(rte_eth_dev* dev, int mask) noexcept;
void vlan_strip_queue_set(rte_eth_dev* dev, uint16_t queue, int on) noexcept;

// mtu.cpp
int mtu_set(rte_eth_dev* dev, uint16_t mtu) noexcept;
/// Makes the netdev's MTU that of the port: a longer frame than Rx buffers expect stops a queue.
[[nodiscard]] Result<void> sync_netdev_mtu(const Port& port, uint16_t mtu);

// rss_ops.cpp
/// Entries of the redirection table; 0 when the device spreads over one queue only.
[[nodiscard]] uint16_t reta_size(const Port& port);
/// Takes over rx_adv_conf and, when the number of queues changed, spreads evenly again.
[[nodiscard]] Result<void> configure_rss(Port& port);
int reta_update(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t size) noexcept;
int reta_query(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t size) noexcept;
int rss_hash_update(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept;
int rss_hash_conf_get(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept;

// steering.cpp
int flow_ops_get(rte_eth_dev* dev, const rte_flow_ops** ops) noexcept;
/// The port's own filters as ethdev's data describe them now.
[[nodiscard]] FilterState wanted_filters(const Port& port);
/// Installs them; nothing to do while the port is stopped or isolated, or has no Rx queues. Changes
/// are atomic: on failure the old filters stay.
[[nodiscard]] Result<void> apply_filters(Port& port, const FilterState& state);

// stats.cpp
/// `queues` may be null.
int stats_get(rte_eth_dev* dev, rte_eth_stats& stats, compat::QueueStats* queues) noexcept;
int stats_reset(rte_eth_dev* dev) noexcept;
int xstats_get_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned size) noexcept;
int xstats_get(rte_eth_dev* dev, rte_eth_xstat* values, unsigned size) noexcept;
int xstats_reset(rte_eth_dev* dev) noexcept;

} // namespace rawqp
