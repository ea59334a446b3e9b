// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"

#include <span>

namespace rawqp {
namespace {

/// What rte_eth_dev_vlan_filter has listed, while the filter is on.
std::vector<uint16_t> wanted_vlans(const rte_eth_dev_data& data) {
    std::vector<uint16_t> vlans;
    if ((data.dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) == 0) return vlans;
    for (unsigned vlan = 0; vlan <= RTE_ETHER_MAX_VLAN_ID; ++vlan)
        if ((data.vlan_filter_conf.ids[vlan / 64] >> vlan % 64 & 1) != 0)
            vlans.push_back(static_cast<uint16_t>(vlan));
    return vlans;
}

} // namespace

FilterState wanted_filters(const Port& port) {
    const rte_eth_dev_data& data = *port.dev->data;
    FilterState state;
    for (const rte_ether_addr& mac : std::span(data.mac_addrs, kMaxMacAddresses))
        if (!rte_is_zero_ether_addr(&mac)) state.macs.push_back(mac);
    state.multicast = port.multicast;
    state.vlans = wanted_vlans(data);
    state.promiscuous = data.promiscuous != 0;
    state.all_multicast = data.all_multicast != 0;
    state.reta.assign(port.rss.reta.begin(), port.rss.reta.end());
    state.key = port.rss.key;
    state.rss_types = port.rss.types;
    return state;
}

Result<void> apply_filters(Port& port, const FilterState& state) {
    // Without Rx queues there is nothing to steer to: packets go to the Linux interface.
    if (!port.started() || port.isolated || port.rx_queues.empty()) return {};
    return port.filters->apply(state);
}

} // namespace rawqp
