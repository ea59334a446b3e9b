// SPDX-License-Identifier: BSD-3-Clause
// One ethdev port: the RDMA device behind it and what the rooms of the control path built on it.
#pragma once

#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/adjusted_clock.hpp"
#include "drivers/net/rawqp/ethdev/devargs.hpp"
#include "drivers/net/rawqp/ethdev/lro.hpp"
#include "drivers/net/rawqp/ethdev/process_port.hpp"
#include "drivers/net/rawqp/ethdev/send_clock.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace rawqp {

class Answers;
class AgeTimer;
class AsyncEvents;
class Filters;
class FlowTable;
class Led;
class Memory;
class Meters;
class OtherDrivers;
class RingHeap;
class RingMemory;
class RssQps;
class RxQueueSet;
class Secondaries;
class Steering;
class TelemetryEntry;
struct RxQueue;
struct TxQueue;

/// Entries of ethdev's table of unicast addresses, each a steering rule while in use.
inline constexpr uint32_t kMaxMacAddresses = 128;

/// Largest MTU that NICs with raw packet QPs take; the netdev has the last word.
inline constexpr uint16_t kMaxMtu = 9978;

/// Bytes of a frame at this MTU without FCS: Ethernet header and one VLAN tag more.
[[nodiscard]] constexpr uint32_t frame_bytes(uint32_t mtu) {
    return mtu + RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN;
}

/// process_private of the primary process; one control thread at a time per port, as ethdev
/// requires. Members are destroyed in reverse order: secondaries, age timer, events, other drivers,
/// flows, meters, filters, steering, RSS QPs, queues, memory, ring memory, PD, context, ring heap.
struct Port final : ProcessPort {
    Port(rte_eth_dev* ethdev, SharedPort& shared_part);
    ~Port(); // both in port/lifecycle.cpp, which knows all of the rooms

    bool register_address(uintptr_t address, MrEntry& entry) override;
    int reset(RxRing& ring) override;
    int reset(TxRing& ring) override;
    int read_clock(mlx5dv_clock_info& info) override;
    int read_clock(uint64_t& ticks) override;
    void read_missed() override; ///< with `control` held, as all of statistics: driver/ops.cpp

    Devargs devargs;
    const verbs::Api* api = nullptr;
    std::string device; ///< RDMA device name
    std::unique_ptr<RingHeap> ring_heap;
    verbs::Context context;
    uint8_t ib_port = 1;
    ibv_device_attr_ex attributes{};
    /// The port's own address if no netdev is visible.
    std::optional<rte_ether_addr> random_mac;
    unsigned if_index = 0;     ///< of that interface; 0: none
    uint32_t speeds = 0;       ///< RTE_ETH_LINK_SPEED_* that the device can do
    SendClock send_clock;      ///< for packets with a send time
    std::optional<LroCap> lro; ///< null: not offered
    verbs::Pd pd;
    std::unique_ptr<RingMemory> ring_memory;
    std::unique_ptr<Memory> memory;
    std::vector<std::unique_ptr<RxQueue>> rx_queues;
    std::vector<std::unique_ptr<TxQueue>> tx_queues;
    std::unique_ptr<RxQueueSet> rx_queue_set; ///< `rx_queues` as steering sees them
    std::unique_ptr<RssQps> rss_qps;          ///< hash QPs shared by filters and flows
    std::unique_ptr<Steering> steering;       ///< the device's rules
    std::unique_ptr<Filters> filters;         ///< MAC, broadcast, multicast, promiscuous
    std::unique_ptr<Meters> meters;           ///< which rte_flow rules may run
    std::unique_ptr<FlowTable> flows;         ///< rte_flow rules
    RssState& rss = shared.rss;
    std::vector<rte_ether_addr> multicast; ///< groups subscribed by set_mc_addr_list
    bool isolated = false;                 ///< rte_flow isolated mode: filters stay out
    bool marks = false;                    ///< rte_flow rules mark packets, or did
    bool metadata = false;                 ///< and give them metadata
    bool timesync = false;                 ///< PTP messages are time-stamped: port/timesync.cpp
    AdjustedClock clock;                   ///< for rte_eth_timesync_*, based on the device's
    eth_tx_burst_t tx_burst = nullptr;     ///< for the queues' options; null: there are no queues
    PortTotals& totals = shared.totals;
    std::unique_ptr<OtherDrivers> other_drivers;
    std::unique_ptr<Led> led;            ///< null: it was never turned on
    std::unique_ptr<AsyncEvents> events; ///< gone before `control` is held to close
    /// Held while queues, flow rules and the port's own rules are made, changed and destroyed: any
    /// thread may do that to flow rules, and secondaries ask for resets and counters at any time.
    std::mutex control;
    std::unique_ptr<AgeTimer> age_timer;       ///< gone before `control` is held to close
    std::unique_ptr<Secondaries> secondaries;  ///< notified of changes
    std::unique_ptr<Answers> answers;          ///< given to them
    std::unique_ptr<TelemetryEntry> telemetry; ///< gone before `control` is held to close

    [[nodiscard]] bool started() const { return dev->data->dev_started != 0; }
    /// Whether LRO is configured.
    [[nodiscard]] bool wants_lro() const {
        return (dev->data->dev_conf.rxmode.offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0;
    }
    /// Bytes without FCS of the longest packet that its Rx queues get at this MTU: a frame, or what
    /// LRO assembles.
    [[nodiscard]] uint32_t longest_packet(uint32_t mtu) const {
        const uint32_t made = wants_lro() ? dev->data->dev_conf.rxmode.max_lro_pkt_size : 0;
        return std::max(frame_bytes(mtu), made);
    }
    [[nodiscard]] static Port& of(const rte_eth_dev* dev) {
        return static_cast<Port&>(ProcessPort::of(dev));
    }
};

} // namespace rawqp
