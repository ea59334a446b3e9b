// SPDX-License-Identifier: BSD-3-Clause
// A port as one process sees it: what primary and secondaries have in common.
#pragma once

#include "common/netdev/netdev.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/hardware_counters.hpp"
#include "drivers/net/rawqp/ethdev/shared_port.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"
#include "drivers/net/rawqp/rings/ring_host.hpp"

#include <string>

namespace rawqp {

/// process_private: Port in the primary, SecondaryPort elsewhere. The operations that serve all
/// processes (statistics, information, queries) know only this.
struct ProcessPort : RingHost {
    ProcessPort(rte_eth_dev* ethdev, SharedPort& shared_part)
        : dev(ethdev), name(ethdev->data->name), shared(shared_part) {}
    ProcessPort(const ProcessPort&) = delete;
    ProcessPort& operator=(const ProcessPort&) = delete;

    rte_eth_dev* dev;
    std::string name; ///< ethdev name, for messages
    SharedPort& shared;
    netdev::Sysfs sysfs;
    netdev::Netdev netdev; ///< the RDMA port's Linux interface, if it is visible here
    const RingFormat* format = nullptr;
    HardwareCounters hardware;

    /// Updates how many packets queues have missed (SharedRxQueue, PortTotals), if the device can
    /// be asked at present.
    virtual void read_missed() = 0;

    /// The names of the burst functions of a port that runs.
    [[nodiscard]] const char* rx_burst_name() const {
        return format->rx_burst(shared.bursts.rx_spec()).description;
    }
    [[nodiscard]] const char* tx_burst_name() const {
        return format->tx_burst(shared.bursts.tx_spec()).description;
    }

    [[nodiscard]] static ProcessPort& of(const rte_eth_dev* dev) {
        return *static_cast<ProcessPort*>(dev->process_private);
    }

  protected:
    ~ProcessPort() = default;
};

} // namespace rawqp
