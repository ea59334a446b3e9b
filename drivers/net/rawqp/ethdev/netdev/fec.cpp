// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

#include <array>
#include <linux/ethtool.h>

namespace rawqp {
namespace {

struct Mode {
    uint32_t capa; ///< bit of RTE_ETH_FEC_*
    uint32_t ethtool;
};
/// LLRS is left out: DPDK has no name for it before 23.07.
constexpr std::array kModes{
    Mode{RTE_ETH_FEC_MODE_CAPA_MASK(NOFEC), ETHTOOL_FEC_OFF},
    Mode{RTE_ETH_FEC_MODE_CAPA_MASK(AUTO), ETHTOOL_FEC_AUTO},
    Mode{RTE_ETH_FEC_MODE_CAPA_MASK(BASER), ETHTOOL_FEC_BASER},
    Mode{RTE_ETH_FEC_MODE_CAPA_MASK(RS), ETHTOOL_FEC_RS},
};

uint32_t capa_of(uint32_t ethtool) {
    uint32_t capa = 0;
    for (const Mode& each : kModes)
        if ((ethtool & each.ethtool) != 0) capa |= each.capa;
    return capa;
}

Result<uint32_t> ethtool_of(uint32_t capa) {
    uint32_t ethtool = 0;
    for (const Mode& each : kModes)
        if ((capa & each.capa) != 0) ethtool |= each.ethtool;
    if (capa == 0 || capa_of(ethtool) != capa)
        return fail(EINVAL, "FEC modes {:#x}: give bits of NOFEC, AUTO, BASER and RS", capa);
    return ethtool;
}

/// The modes that IEEE 802.3 and the 25G/50G consortium have for a speed: the kernel reports those
/// of all speeds together.
struct SpeedModes {
    uint32_t flag; ///< RTE_ETH_LINK_SPEED_*
    uint32_t mbps;
    uint32_t ethtool;
};
constexpr std::array kSpeeds{
    SpeedModes{RTE_ETH_LINK_SPEED_10G, RTE_ETH_SPEED_NUM_10G, ETHTOOL_FEC_BASER},
    SpeedModes{RTE_ETH_LINK_SPEED_25G, RTE_ETH_SPEED_NUM_25G, ETHTOOL_FEC_BASER | ETHTOOL_FEC_RS},
    SpeedModes{RTE_ETH_LINK_SPEED_40G, RTE_ETH_SPEED_NUM_40G, ETHTOOL_FEC_BASER},
    SpeedModes{RTE_ETH_LINK_SPEED_50G, RTE_ETH_SPEED_NUM_50G, ETHTOOL_FEC_BASER | ETHTOOL_FEC_RS},
    SpeedModes{RTE_ETH_LINK_SPEED_100G, RTE_ETH_SPEED_NUM_100G, ETHTOOL_FEC_RS},
    SpeedModes{RTE_ETH_LINK_SPEED_200G, RTE_ETH_SPEED_NUM_200G, ETHTOOL_FEC_RS},
};

} // namespace

int fec_get_capability(rte_eth_dev* dev, rte_eth_fec_capa* list, unsigned size) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    const Result<uint32_t> supported = port.netdev.supported_fec();
    if (!supported) return report(port.name, supported.error());
    if (*supported == 0) return report(port.name, {ENOTSUP, "the interface tells of no FEC modes"});
    unsigned count = 0;
    for (const SpeedModes& speed : kSpeeds) {
        if ((port.shared.info.speed_capa & speed.flag) == 0) continue;
        if (list != nullptr && count < size)
            list[count] = {speed.mbps, capa_of(ETHTOOL_FEC_AUTO |
                                               (*supported & (speed.ethtool | ETHTOOL_FEC_OFF)))};
        ++count;
    }
    return static_cast<int>(count);
}

int fec_get(rte_eth_dev* dev, uint32_t* capa) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    const Result<netdev::FecSetting> setting = port.netdev.fec();
    if (!setting) return report(port.name, setting.error());
    const Result<netdev::Link> link = port.netdev.link();
    const uint32_t mode = link && link->up ? setting->active : setting->configured;
    *capa = capa_of(mode);
    if (*capa != 0) return 0;
    return report(
        port.name,
        {ENOTSUP, fmt::format("DPDK has no name for the FEC mode (ETHTOOL_FEC_* {:#x})", mode)});
}

int fec_set(rte_eth_dev* dev, uint32_t capa) noexcept {
    const Port& port = Port::of(dev);
    const Result<uint32_t> modes = ethtool_of(capa);
    if (!modes) return report(port.name, modes.error());
    return report(port.name, port.netdev.set_fec(*modes));
}

} // namespace rawqp
