// SPDX-License-Identifier: BSD-3-Clause
// The plug-in module or cable, as its own memory describes it.
#include "drivers/net/rawqp/ethdev/netdev/ops.hpp"
#include "drivers/net/rawqp/ethdev/port.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"

#include <linux/ethtool.h>

namespace rawqp {

// DPDK has the kernel's numbers for how modules lay out their memory.
static_assert(RTE_ETH_MODULE_SFF_8079 == ETH_MODULE_SFF_8079 &&
              RTE_ETH_MODULE_SFF_8472 == ETH_MODULE_SFF_8472 &&
              RTE_ETH_MODULE_SFF_8636 == ETH_MODULE_SFF_8636 &&
              RTE_ETH_MODULE_SFF_8436 == ETH_MODULE_SFF_8436);

int get_module_info(rte_eth_dev* dev, rte_eth_dev_module_info* info) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    const Result<netdev::ModuleInfo> module = port.netdev.module_info();
    if (!module) return report(port.name, module.error());
    info->type = module->type;
    info->eeprom_len = module->bytes;
    return 0;
}

int get_module_eeprom(rte_eth_dev* dev, rte_dev_eeprom_info* info) noexcept {
    const ProcessPort& port = ProcessPort::of(dev);
    return report(port.name, port.netdev.read_module(
                                 info->offset, {static_cast<uint8_t*>(info->data), info->length}));
}

} // namespace rawqp
