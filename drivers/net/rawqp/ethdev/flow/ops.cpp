// SPDX-License-Identifier: BSD-3-Clause
// Between ethdev and the two users of steering: the port's own filters and rte_flow.
#include "drivers/net/rawqp/ethdev/driver/ops.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

#include <algorithm>

namespace rawqp {
namespace {

int isolate(rte_eth_dev* dev, int set, rte_flow_error* error) noexcept {
    Port& port = Port::of(dev);
    port.isolated = set != 0;
    if (port.isolated) {
        port.filters->clear();
        return 0;
    }
    if (const Result<void> done = apply_filters(port, wanted_filters(port)); !done) {
        port.isolated = true;
        return rte_flow_error_set(error, -report(port, done.error()),
                                  RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                                  "the port's own filters cannot be installed again");
    }
    return 0;
}

constexpr rte_flow_ops make_flow_ops() {
    rte_flow_ops ops{};
    ops.validate = [](rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item* pattern,
                      const rte_flow_action* actions, rte_flow_error* error) noexcept {
        return Port::of(dev).flows->validate(attr, pattern, actions, error);
    };
    ops.create = [](rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item* pattern,
                    const rte_flow_action* actions, rte_flow_error* error) noexcept {
        return Port::of(dev).flows->create(attr, pattern, actions, error);
    };
    ops.destroy = [](rte_eth_dev* dev, rte_flow* flow, rte_flow_error* error) noexcept {
        return Port::of(dev).flows->destroy(flow, error);
    };
    ops.flush = [](rte_eth_dev* dev, rte_flow_error* error) noexcept {
        return Port::of(dev).flows->flush(error);
    };
    ops.query = [](rte_eth_dev* dev, rte_flow* flow, const rte_flow_action* action, void* data,
                   rte_flow_error* error) noexcept {
        return Port::of(dev).flows->query(flow, action, data, error);
    };
    ops.isolate = isolate;
    return ops;
}
constinit const rte_flow_ops kFlowOps = make_flow_ops();

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

int flow_ops_get(rte_eth_dev*, const rte_flow_ops** ops) noexcept {
    *ops = &kFlowOps;
    return 0;
}

FilterState wanted_filters(const Port& port) {
    const rte_eth_dev_data& data = *port.dev->data;
    FilterState state;
    for (const rte_ether_addr& mac : std::span(data.mac_addrs, kMaxMacAddresses))
        if (!rte_is_zero_ether_addr(&mac)) state.macs.push_back(mac);
    state.multicast = port.multicast;
    state.vlans = wanted_vlans(data);
    state.promiscuous = data.promiscuous != 0;
    state.all_multicast = data.all_multicast != 0;
    state.reta = port.rss.reta;
    state.key = port.rss.key;
    state.rss_types = port.rss.types;
    return state;
}

Result<void> apply_filters(Port& port, const FilterState& state) {
    // Without Rx queues there is nothing to steer to: what comes goes to the Linux interface.
    if (!port.started() || port.isolated || port.rx_queues.empty()) return {};
    return port.filters->apply(state);
}

} // namespace rawqp
