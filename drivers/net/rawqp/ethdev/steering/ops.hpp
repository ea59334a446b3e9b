// SPDX-License-Identifier: BSD-3-Clause
// The ethdev operations that decide where packets go, as the rte_eth_* function of the same name
// documents them. ethdev calls them on control threads, one at a time per port.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

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

// reta.cpp
int reta_update(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t size) noexcept;
int reta_query(rte_eth_dev* dev, rte_eth_rss_reta_entry64* reta, uint16_t size) noexcept;
int rss_hash_update(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept;
int rss_hash_conf_get(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept;

// tunnel_ports.cpp
int udp_tunnel_port_add(rte_eth_dev* dev, rte_eth_udp_tunnel* tunnel) noexcept;

} // namespace rawqp
