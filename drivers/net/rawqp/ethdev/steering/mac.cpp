// SPDX-License-Identifier: BSD-3-Clause
// Receive modes, addresses and VLANs. Each operation describes the wanted state in full and applies
// it; ethdev itself records the new state after success, which is why its data here still hold the
// old one.
#include "drivers/net/rawqp/ethdev/steering/ops.hpp"

#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"

#include <algorithm>

namespace rawqp {
namespace {

bool same(const rte_ether_addr& a, const rte_ether_addr& b) {
    return rte_is_same_ether_addr(&a, &b) != 0;
}

bool holds(const std::vector<rte_ether_addr>& list, const rte_ether_addr& mac) {
    return std::any_of(list.begin(), list.end(),
                       [&](const rte_ether_addr& each) { return same(each, mac); });
}

template <class Change> int change_filters(rte_eth_dev* dev, Change change) {
    Port& port = Port::of(dev);
    FilterState state = wanted_filters(port);
    change(state);
    return report(port.name, apply_filters(port, state));
}

} // namespace

int promiscuous_enable(rte_eth_dev* dev) noexcept {
    return change_filters(dev, [](FilterState& state) { state.promiscuous = true; });
}

int promiscuous_disable(rte_eth_dev* dev) noexcept {
    return change_filters(dev, [](FilterState& state) { state.promiscuous = false; });
}

int allmulticast_enable(rte_eth_dev* dev) noexcept {
    return change_filters(dev, [](FilterState& state) { state.all_multicast = true; });
}

int allmulticast_disable(rte_eth_dev* dev) noexcept {
    return change_filters(dev, [](FilterState& state) { state.all_multicast = false; });
}

int mac_addr_add(rte_eth_dev* dev, rte_ether_addr* mac, uint32_t, uint32_t) noexcept {
    return change_filters(dev, [&](FilterState& state) {
        if (!holds(state.macs, *mac)) // ethdev adds them all again at port start
            state.macs.push_back(*mac);
    });
}

void mac_addr_remove(rte_eth_dev* dev, uint32_t index) noexcept {
    const rte_ether_addr mac = dev->data->mac_addrs[index];
    change_filters(dev, [&](FilterState& state) {
        std::erase_if(state.macs, [&](const rte_ether_addr& each) { return same(each, mac); });
    });
}

int mac_addr_set(rte_eth_dev* dev, rte_ether_addr* mac) noexcept {
    const rte_ether_addr old = dev->data->mac_addrs[0];
    return change_filters(dev, [&](FilterState& state) {
        std::erase_if(state.macs, [&](const rte_ether_addr& each) { return same(each, old); });
        if (!holds(state.macs, *mac)) state.macs.push_back(*mac);
    });
}

int set_mc_addr_list(rte_eth_dev* dev, rte_ether_addr* groups, uint32_t count) noexcept {
    Port& port = Port::of(dev);
    std::vector<rte_ether_addr> wanted;
    for (const rte_ether_addr& group : std::span(groups, count)) {
        if (rte_is_multicast_ether_addr(&group) == 0)
            return report(port.name, {EINVAL, "a multicast list holds a unicast address"});
        if (!holds(wanted, group)) wanted.push_back(group);
    }
    const int error = change_filters(dev, [&](FilterState& state) { state.multicast = wanted; });
    if (error == 0) port.multicast = std::move(wanted);
    return error;
}

int vlan_filter_set(rte_eth_dev* dev, uint16_t vlan, int on) noexcept {
    return change_filters(dev, [&](FilterState& state) {
        std::erase(state.vlans, vlan);
        if (on != 0) state.vlans.push_back(vlan);
    });
}

} // namespace rawqp
