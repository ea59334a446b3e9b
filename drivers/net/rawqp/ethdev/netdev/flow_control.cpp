// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

#include <cstring>

namespace rawqp {
namespace {

rte_eth_fc_mode mode_of(const netdev::Pause& pause) {
    if (pause.rx) return pause.tx ? RTE_ETH_FC_FULL : RTE_ETH_FC_RX_PAUSE;
    return pause.tx ? RTE_ETH_FC_TX_PAUSE : RTE_ETH_FC_NONE;
}

netdev::Pause pause_of(const rte_eth_fc_conf& conf) {
    const bool full = conf.mode == RTE_ETH_FC_FULL;
    return {.rx = full || conf.mode == RTE_ETH_FC_RX_PAUSE,
            .tx = full || conf.mode == RTE_ETH_FC_TX_PAUSE,
            .autoneg = conf.autoneg != 0};
}

/// Interfaces know directions and negotiation (ethtool's pauseparam); the device has its own
/// thresholds and pause times, which cannot be set from outside.
Result<void> check(const rte_eth_fc_conf& conf) {
    constexpr unsigned kModes = RTE_ETH_FC_FULL + 1;
    unsigned mode = 0; // a C program may pass what C++ takes for impossible
    static_assert(sizeof conf.mode == sizeof mode);
    std::memcpy(&mode, &conf.mode, sizeof mode);
    if (mode >= kModes) return fail(EINVAL, "flow control: no such mode: {}", mode);
    if (conf.mac_ctrl_frame_fwd != 0)
        return fail(ENOTSUP, "flow control: the device does not forward MAC control frames");
    if (conf.high_water != 0 || conf.low_water != 0 || conf.pause_time != 0)
        return fail(ENOTSUP, "flow control: the device has its own water marks and pause time: "
                             "leave them 0");
    if (conf.send_xon != 0)
        return fail(ENOTSUP, "flow control: the device decides itself when to send XON frames: "
                             "leave send_xon 0");
    return {};
}

Result<void> set(const netdev::Netdev& netdev, const rte_eth_fc_conf& conf) {
    if (Result<void> fit = check(conf); !fit) return fit;
    const netdev::Pause wanted = pause_of(conf);
    const Result<netdev::Pause> now = netdev.pause();
    if (!now) return tl::unexpected(now.error());
    if (*now == wanted) return {}; // leaving it as it is needs no privileges
    return netdev.set_pause(wanted);
}

} // namespace

int flow_ctrl_get(rte_eth_dev* dev, rte_eth_fc_conf* conf) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    const Result<netdev::Pause> pause = port.netdev.pause();
    if (!pause) return report(port.name, pause.error());
    *conf = {};
    conf->mode = mode_of(*pause);
    conf->autoneg = pause->autoneg ? 1 : 0;
    return 0;
}

int flow_ctrl_set(rte_eth_dev* dev, rte_eth_fc_conf* conf) noexcept {
    const Port& port = Port::of(dev);
    return report(port.name, set(port.netdev, *conf));
}

} // namespace rawqp
