// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/netdev/link.hpp"

#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

#include <array>

namespace rawqp {
namespace {

constexpr unsigned kWaitMilliseconds = 2000;
constexpr unsigned kPollMilliseconds = 20;

/// Mbit/s of a port from its InfiniBand-style attributes, where no netdev is visible; 0: unknown.
uint32_t speed_of(const ibv_port_attr& port) {
    // One bit per generation: SDR DDR QDR FDR10 FDR EDR HDR NDR; Mbit/s of one lane.
    constexpr std::array<uint32_t, 8> kLane{2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
    // One bit per width: 1x 4x 8x 12x 2x.
    constexpr std::array<uint32_t, 5> kLanes{1, 4, 8, 12, 2};
    for (size_t lane = 0; lane < kLane.size(); ++lane)
        for (size_t lanes = 0; lanes < kLanes.size(); ++lanes)
            if (port.active_speed == 1u << lane && port.active_width == 1u << lanes)
                return kLane[lane] * kLanes[lanes];
    return 0;
}

/// `speed` in Mbit/s; 0: unknown.
void set_state(rte_eth_link& link, bool up, uint32_t speed) {
    link.link_status = up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN;
    if (!up)
        link.link_speed = RTE_ETH_SPEED_NUM_NONE;
    else
        link.link_speed = speed != 0 ? speed : uint32_t{RTE_ETH_SPEED_NUM_UNKNOWN};
}

} // namespace

rte_eth_link link_of(const ibv_port_attr& attributes) {
    rte_eth_link link{};
    link.link_duplex = RTE_ETH_LINK_FULL_DUPLEX;
    link.link_autoneg = RTE_ETH_LINK_AUTONEG;
    set_state(link, attributes.state == IBV_PORT_ACTIVE, speed_of(attributes));
    return link;
}

uint32_t read_speeds(const Port& port) {
    std::vector<uint32_t> speeds = port.netdev.supported_speeds().value_or(std::vector<uint32_t>{});
    if (speeds.empty()) {
        ibv_port_attr attributes{};
        (void)verbs::query_port(*port.api, port.context.get(), port.ib_port, attributes);
        speeds = {speed_of(attributes)};
    }
    uint32_t flags = 0;
    for (const uint32_t mbps : speeds)
        flags |= rte_eth_speed_bitflag(mbps, RTE_ETH_LINK_FULL_DUPLEX);
    return flags;
}

rte_eth_link read_link(const Port& port) {
    ibv_port_attr attributes{}; // of a device that is gone: down
    (void)verbs::query_port(*port.api, port.context.get(), port.ib_port, attributes);
    rte_eth_link link = link_of(attributes);
    if (link.link_status == RTE_ETH_LINK_DOWN) return link; // whatever the interface says
    if (const Result<netdev::Link> netdev = port.netdev.link()) {
        link.link_duplex =
            netdev->full_duplex ? RTE_ETH_LINK_FULL_DUPLEX : RTE_ETH_LINK_HALF_DUPLEX;
        link.link_autoneg = netdev->autoneg ? RTE_ETH_LINK_AUTONEG : RTE_ETH_LINK_FIXED;
        set_state(link, netdev->up, netdev->speed_mbps);
    }
    return link;
}

int link_update(rte_eth_dev* dev, int wait) noexcept {
    const Port& port = Port::of(dev);
    rte_eth_link link = read_link(port);
    for (unsigned waited = 0;
         wait != 0 && link.link_status == RTE_ETH_LINK_DOWN && waited < kWaitMilliseconds;
         waited += kPollMilliseconds) {
        rte_delay_us_sleep(kPollMilliseconds * 1000);
        link = read_link(port);
    }
    return rte_eth_linkstatus_set(dev, &link);
}

int set_link_up(rte_eth_dev* dev) noexcept {
    const Port& port = Port::of(dev);
    return report(port.name, port.netdev.set_up(true));
}

int set_link_down(rte_eth_dev* dev) noexcept {
    const Port& port = Port::of(dev);
    return report(port.name, port.netdev.set_up(false));
}

} // namespace rawqp
