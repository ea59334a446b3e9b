// SPDX-License-Identifier: BSD-3-Clause
// The ethdev operations that concern the port's Linux interface, as the rte_eth_* function of the
// same name documents them. ethdev calls them on control threads, one at a time per port.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

int link_update(rte_eth_dev* dev, int wait) noexcept;
int set_link_up(rte_eth_dev* dev) noexcept;
int set_link_down(rte_eth_dev* dev) noexcept;
int mtu_set(rte_eth_dev* dev, uint16_t mtu) noexcept;
int flow_ctrl_get(rte_eth_dev* dev, rte_eth_fc_conf* conf) noexcept;
int flow_ctrl_set(rte_eth_dev* dev, rte_eth_fc_conf* conf) noexcept;
int fec_get_capability(rte_eth_dev* dev, rte_eth_fec_capa* list, unsigned size) noexcept;
int fec_get(rte_eth_dev* dev, uint32_t* capa) noexcept;
int fec_set(rte_eth_dev* dev, uint32_t capa) noexcept;
int get_module_info(rte_eth_dev* dev, rte_eth_dev_module_info* info) noexcept;
int get_module_eeprom(rte_eth_dev* dev, rte_dev_eeprom_info* info) noexcept;
int led_on(rte_eth_dev* dev) noexcept;
int led_off(rte_eth_dev* dev) noexcept;

} // namespace rawqp
