// SPDX-License-Identifier: BSD-3-Clause
// The ethdev operations of single queues, as the rte_eth_* function of the same name documents
// them; port/ sets up Rx queues. ethdev calls them on control threads, one at a time per port.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

// rx.cpp
/// While the port runs, steering keeps referring to the queue's WQ until the queue is set up again.
void rx_queue_release(rte_eth_dev* dev, uint16_t id) noexcept;
/// On a started port. The device drops what steering sends to a stopped queue.
int rx_queue_start(rte_eth_dev* dev, uint16_t id) noexcept;
int rx_queue_stop(rte_eth_dev* dev, uint16_t id) noexcept;
int get_monitor_addr(void* ring, rte_power_monitor_cond* condition) noexcept;

// tx.cpp
int tx_queue_setup(rte_eth_dev* dev, uint16_t id, uint16_t descriptors, unsigned socket,
                   const rte_eth_txconf* conf) noexcept;
void tx_queue_release(rte_eth_dev* dev, uint16_t id) noexcept;
/// On a started port.
int tx_queue_start(rte_eth_dev* dev, uint16_t id) noexcept;
int tx_queue_stop(rte_eth_dev* dev, uint16_t id) noexcept;
int tx_done_cleanup(void* ring, uint32_t count) noexcept;
/// Packet pacing in Mbit/s, 0: none. See rte_eth_set_queue_rate_limit.
int set_queue_rate_limit(rte_eth_dev* dev, uint16_t id, uint32_t rate) noexcept;

// rx_interrupts.cpp
/// Enabling reports at once packets that came since the last burst: the device compares its own
/// count with the consumer index of the request, so no wake-up is lost.
int rx_queue_intr_enable(rte_eth_dev* dev, uint16_t queue) noexcept;
int rx_queue_intr_disable(rte_eth_dev* dev, uint16_t queue) noexcept;

// vlan_strip.cpp
void vlan_strip_queue_set(rte_eth_dev* dev, uint16_t queue, int on) noexcept;

} // namespace rawqp
