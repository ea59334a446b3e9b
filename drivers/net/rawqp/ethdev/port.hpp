// SPDX-License-Identifier: BSD-3-Clause
// One ethdev port: the RDMA device behind it and everything that the control path built on it.
#pragma once

#include "common/netdev/netdev.hpp"
#include "common/result.hpp"
#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/devargs.hpp"
#include "drivers/net/rawqp/ethdev/driver/other_drivers.hpp"
#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/memory/memory.hpp"
#include "drivers/net/rawqp/ethdev/memory/ring_memory.hpp"
#include "drivers/net/rawqp/ethdev/port/async_events.hpp"
#include "drivers/net/rawqp/ethdev/steering/filters.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"
#include "drivers/net/rawqp/rings/ring_host.hpp"

#include <memory>
#include <string>
#include <vector>

namespace rawqp {

/// Entries of ethdev's table of unicast addresses, each a steering rule while in use.
inline constexpr uint32_t kMaxMacAddresses = 128;

struct Port;

/// Control side of one Rx queue. The CQ and WQ live from queue set-up to queue release, so that RSS
/// tables and flows can refer to them while the port is stopped.
struct RxQueue {
    explicit RxQueue(Port& owner) : port(owner) {}
    ~RxQueue(); ///< the queue is not running
    RxQueue(const RxQueue&) = delete;
    RxQueue& operator=(const RxQueue&) = delete;

    Port& port;
    verbs::CompChannel channel; ///< null without Rx interrupts
    verbs::CqEx cq;
    verbs::Wq wq;
    RxSpec spec;
    RxRing* ring = nullptr; ///< what dev->data->rx_queues[i] points to; owned
    RxCounters base;        ///< counters at the last statistics reset
    bool running = false;   ///< the WQ is in RDY and the ring holds mbufs
    bool deferred = false;  ///< port start leaves it stopped
    bool released = false;  ///< while the port runs: stays, as steering refers to its WQ
    bool wq_strips = false; ///< the WQ takes VLAN tags out
};

struct TxQueue {
    explicit TxQueue(Port& owner) : port(owner) {}
    ~TxQueue();
    TxQueue(const TxQueue&) = delete;
    TxQueue& operator=(const TxQueue&) = delete;

    Port& port;
    verbs::CqEx cq;
    verbs::Td thread_domain; ///< null: the QP is in the port's PD
    verbs::Pd parent_domain; ///< the port's PD and the thread domain
    verbs::Qp qp;
    TxSpec spec;
    TxRing* ring = nullptr;
    TxCounters base;
    bool running = false;   ///< the QP is in RTS
    bool deferred = false;  ///< port start leaves it stopped
    uint32_t rate_kbps = 0; ///< packet pacing; 0: none
};

/// What spreads packets over the Rx queues, as configured; live from dev_configure on.
struct RssState {
    RssKey key = kDefaultRssKey;
    uint64_t types = 0;         ///< RTE_ETH_RSS_*; 0: everything to reta[0]
    std::vector<uint16_t> reta; ///< queue per entry, power-of-two length
};

/// Counts that no live queue holds.
struct PortTotals {
    RxCounters rx; ///< of queues that were released since the last statistics reset
    TxCounters tx;
    uint64_t unread = 0;      ///< packets that stood in Rx rings when they were stopped
    uint64_t unsent = 0;      ///< packets that Tx queues still held when they were stopped
    uint64_t missed_base = 0; ///< the device's out-of-buffer counter at the last reset
    std::vector<netdev::Counter> hardware_base; ///< hardware counters at the last xstats reset
};

/// Owned by dev_private of the primary process; one control thread at a time per port, as ethdev
/// demands. Members are destroyed in reverse order: events, other drivers, flows, filters, RSS QPs,
/// queues, memory, ring memory, PD, context.
struct Port final : RingHost {
    bool register_address(uintptr_t address, MrEntry& entry) override;
    int reset(RxRing& ring) override;
    int reset(TxRing& ring) override;
    int read_clock(mlx5dv_clock_info& info) override;

    rte_eth_dev* dev = nullptr;
    std::string name; ///< ethdev name, for messages
    Devargs devargs;
    netdev::Sysfs sysfs;
    const verbs::Api* api = nullptr;
    std::string device; ///< RDMA device name
    verbs::Context context;
    uint8_t ib_port = 1;
    ibv_device_attr_ex attributes{};
    netdev::Netdev netdev; ///< the Linux interface beside the RDMA port, if it is visible here
    unsigned if_index = 0; ///< of that interface; 0: none
    uint32_t speeds = 0;   ///< RTE_ETH_LINK_SPEED_* that the device can do
    verbs::Pd pd;
    RingMemory ring_memory;
    std::unique_ptr<Memory> memory;
    const RingFormat* format = nullptr;
    std::vector<std::unique_ptr<RxQueue>> rx_queues;
    std::vector<std::unique_ptr<TxQueue>> tx_queues;
    std::unique_ptr<RssQps> rss_qps;  ///< hash QPs shared by filters and flows
    std::unique_ptr<Filters> filters; ///< MAC, broadcast, multicast, promiscuous
    std::unique_ptr<FlowTable> flows; ///< rte_flow rules
    RssState rss;
    std::vector<rte_ether_addr> multicast; ///< groups subscribed by set_mc_addr_list
    bool isolated = false;                 ///< rte_flow isolated mode: filters stay out
    bool marks = false;                    ///< rte_flow rules mark packets, or did
    PortTotals totals;
    std::unique_ptr<OtherDrivers> other_drivers;
    std::unique_ptr<AsyncEvents> events;

    [[nodiscard]] bool started() const { return dev->data->dev_started != 0; }
    [[nodiscard]] static Port& of(rte_eth_dev* dev) {
        return **static_cast<Port**>(dev->data->dev_private);
    }
};

} // namespace rawqp
