// SPDX-License-Identifier: BSD-3-Clause
// VLAN offloads of the whole port: its queues do the stripping, steering the filtering.
#include "drivers/net/rawqp/ethdev/port/ops.hpp"
#include "drivers/net/rawqp/ethdev/queues/vlan_strip.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"

namespace rawqp {

int vlan_offload_set(rte_eth_dev* dev, int mask) noexcept {
    Port& port = Port::of(dev);
    const uint64_t offloads = dev->data->dev_conf.rxmode.offloads; // the new ones
    const bool strip = (offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
    std::vector<RxQueue*> others;
    if ((mask & RTE_ETH_VLAN_STRIP_MASK) != 0) others = queues_that_strip(port, !strip);
    Result<void> done = set_strip(others, strip);
    if (done && (mask & RTE_ETH_VLAN_FILTER_MASK) != 0) {
        done = apply_filters(port, wanted_filters(port));
        if (!done) (void)set_strip(others, !strip);
    }
    return report(port.name, done);
}

} // namespace rawqp
