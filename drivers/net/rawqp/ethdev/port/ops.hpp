// SPDX-License-Identifier: BSD-3-Clause
// The ethdev operations of a whole port, as the rte_eth_* function of the same name documents them.
// ethdev calls them on control threads, one at a time per port.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/shared_port.hpp"

namespace rawqp {

struct Port;

// lifecycle.cpp
int dev_configure(rte_eth_dev* dev) noexcept;
int dev_start(rte_eth_dev* dev) noexcept;
int dev_stop(rte_eth_dev* dev) noexcept;
int dev_close(rte_eth_dev* dev) noexcept;

// rx_queue_setup.cpp
int rx_queue_setup(rte_eth_dev* dev, uint16_t id, uint16_t descriptors, unsigned socket,
                   const rte_eth_rxconf* conf, rte_mempool* pool) noexcept;

// vlan_offload.cpp
int vlan_offload_set(rte_eth_dev* dev, int mask) noexcept;

// info.cpp
int dev_info_get(rte_eth_dev* dev, rte_eth_dev_info* info) noexcept;
const uint32_t* supported_ptypes_get(rte_eth_dev* dev) noexcept;
int rx_burst_mode_get(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept;
int tx_burst_mode_get(rte_eth_dev* dev, uint16_t queue, rte_eth_burst_mode* mode) noexcept;
void rxq_info_get(rte_eth_dev* dev, uint16_t queue, rte_eth_rxq_info* info) noexcept;
void txq_info_get(rte_eth_dev* dev, uint16_t queue, rte_eth_txq_info* info) noexcept;
/// The device clock that RTE_ETH_RX_OFFLOAD_TIMESTAMP reports.
int read_clock(rte_eth_dev* dev, uint64_t* clock) noexcept;
/// The same in ticks, whatever the unit of time stamps.
[[nodiscard]] Result<uint64_t> device_ticks(const Port& port);
/// ethdev asks this after an error, and returns EIO if so.
int is_removed(rte_eth_dev* dev) noexcept;
int fw_version_get(rte_eth_dev* dev, char* version, size_t size) noexcept;
/// Makes secondary processes report the same as dev_info_get does now.
void publish_info(Port& port);

// timesync.cpp
int timesync_enable(rte_eth_dev* dev) noexcept;
int timesync_disable(rte_eth_dev* dev) noexcept;
int timesync_read_rx_timestamp(rte_eth_dev* dev, timespec* time, uint32_t number) noexcept;
int timesync_read_tx_timestamp(rte_eth_dev* dev, timespec* time) noexcept;
int timesync_adjust_time(rte_eth_dev* dev, int64_t delta) noexcept;
int timesync_adjust_freq(rte_eth_dev* dev, int64_t scaled_ppm) noexcept;
int timesync_write_time(rte_eth_dev* dev, const timespec* time) noexcept;
int timesync_read_time(rte_eth_dev* dev, timespec* time) noexcept;
/// The burst that ethdev is to call: Port::tx_burst, or one that notes what is to be stamped.
void choose_tx_burst(Port& port);

// dump.cpp
/// What the port is made of, for people to read.
int priv_dump(rte_eth_dev* dev, FILE* file) noexcept;
int rx_descriptor_dump(const rte_eth_dev* dev, uint16_t queue, uint16_t offset, uint16_t count,
                       FILE* file) noexcept;
int tx_descriptor_dump(const rte_eth_dev* dev, uint16_t queue, uint16_t offset, uint16_t count,
                       FILE* file) noexcept;

// stats.cpp
/// `queues` may be null.
int stats_get(rte_eth_dev* dev, rte_eth_stats& stats, compat::QueueStats* queues) noexcept;
int stats_reset(rte_eth_dev* dev) noexcept;
int xstats_get_names(rte_eth_dev* dev, rte_eth_xstat_name* names, unsigned size) noexcept;
int xstats_get(rte_eth_dev* dev, rte_eth_xstat* values, unsigned size) noexcept;
int xstats_reset(rte_eth_dev* dev) noexcept;

} // namespace rawqp
