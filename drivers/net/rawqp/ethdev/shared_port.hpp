// SPDX-License-Identifier: BSD-3-Clause
// What a port consists of, who owns each part, and which memory it is in.
//
// clang-format off
// | part                                    | memory                        | owner                             | written by                           |
// |-----------------------------------------|-------------------------------|-----------------------------------|--------------------------------------|
// | rte_eth_dev_data: configuration, link   | DPDK's, all processes         | ethdev                            | primary                              |
// | SharedPort (dev_private): this file     | DPDK's heap, all processes    | ethdev frees it                   | primary; bases of counters: any      |
// | rings: MlxRxRing, MlxTxRing, mbuf lists | DPDK's heap, all processes    | the primary's RxQueue and TxQueue | the lcore that polls the queue       |
// | CQs, WQs, SQs, doorbell records         | DPDK's heap (RingHeap)        | libibverbs of the primary         | the device and that lcore            |
// | MrTable                                 | DPDK's heap, all processes    | the primary's Memory              | primary                              |
// | verbs objects: Port, RxQueue, TxQueue   | primary's (process_private)   | Port                              | primary                              |
// | SecondaryPort, guards of its queues     | each secondary's              | that process                      | that process                         |
// | doorbell registers (tx_registers)       | mapped by each process        | that process                      | the lcore that polls the queue       |
// | functions: bursts, operations           | each process's                | -                                 | chosen by each process               |
// clang-format on
//
// Plain data without pointers that are valid in one process only: secondaries read it while the
// primary lives, and after that.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/rss_state.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

#include <array>
#include <span>
#include <type_traits>

namespace rawqp {

/// Where a queue stands in its life. Only a running queue may be polled, by any process; before it
/// leaves that state for good, every secondary has said that it no longer polls it (or is dead).
///
/// | from \ to | absent       | set_up          | running | stopping | released              |
/// |-----------|--------------|-----------------|---------|----------|-----------------------|
/// | absent    | no           | set-up          | no      | no       | no                    |
/// | set_up    | release      | set up anew     | start   | no       | release, port running |
/// | running   | no           | no              | no      | stop     | no                    |
/// | stopping  | no           | stopped         | no      | no       | no                    |
/// | released  | port stopped | set up anew     | no      | no       | again                 |
///
/// "No" is forbidden: a queue runs only after it was set up, its WQ or QP is destroyed only after
/// it was stopped, and it is stopped only after secondaries have let go of it.
///
/// A queue whose WQ or QP could not be reset still counts as stopped: nobody polls it, and it holds
/// its mbufs until it is set up anew or released.
enum class QueueState : uint8_t { absent, set_up, running, stopping, released };

[[nodiscard]] constexpr bool may_become(QueueState from, QueueState to) {
    constexpr bool kAllowed[5][5] = {
        //  absent set_up running stopping released
        {false, true, false, false, false}, // absent
        {true, true, true, false, true},    // set_up
        {false, false, false, true, false}, // running
        {false, true, false, false, false}, // stopping
        {true, true, false, false, true},   // released
    };
    return kAllowed[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

/// Makes the transition, which other processes may watch. A forbidden one is a bug of the driver:
/// it is logged and made anyway.
void advance(QueueState& state, QueueState to);
[[nodiscard]] inline QueueState load_state(const QueueState& state) {
    // Through the underlying type, as clang's builtins take no enumerations.
    return static_cast<QueueState>(
        __atomic_load_n(reinterpret_cast<const uint8_t*>(&state), __ATOMIC_ACQUIRE));
}

/// For people to read.
[[nodiscard]] const char* name_of(QueueState state);

/// The CQ of a queue that failed last, by its serial number (CqOwner); 0: none has. Noted by EAL's
/// interrupt thread, concurrently with control calls.
struct FailedCq {
    uint32_t serial = 0;
    void note(uint32_t failed) { __atomic_store_n(&serial, failed, __ATOMIC_RELAXED); }
    [[nodiscard]] bool is(uint32_t other) const {
        return __atomic_load_n(&serial, __ATOMIC_RELAXED) == other;
    }
};

struct SharedRxQueue {
    QueueState state = QueueState::absent;
    uint32_t set_ups = 0;  ///< so far: a later ring may lie where the former did
    bool deferred = false; ///< port start leaves it stopped
    uint8_t segments = 1;  ///< these as in RxSpec
    uint16_t descriptors = 0;
    uint64_t offloads = 0;
    rte_mempool* pool = nullptr;
    uint16_t buffer_bytes = 0;      ///< of each first mbuf that the device may fill
    rte_eth_rxseg* split = nullptr; ///< as the application gave it, in DPDK's heap; null: none
    uint16_t split_segments = 0;
    RxCounters base;            ///< counters at the last statistics reset
    bool counts_missed = false; ///< the device counts what this queue misses
    uint64_t missed = 0;        ///< how many, when it was last asked
    uint64_t missed_base = 0;   ///< at the last reset
    FailedCq failed_cq;
};

struct SharedTxQueue {
    QueueState state = QueueState::absent;
    uint32_t set_ups = 0;
    bool deferred = false;
    uint16_t descriptors = 0;
    uint64_t offloads = 0;
    TxCounters base;
    FailedCq failed_cq;
};

/// A hardware counter at the last reset.
struct CounterBase {
    std::array<char, RTE_ETH_XSTATS_NAME_SIZE> name{};
    uint64_t value = 0;
};

/// The bases of a port's counters, in DPDK's heap; the entries follow. If there are more counters
/// by then, a reset makes a larger table; this one stays, as other processes may be reading it.
struct CounterBases {
    CounterBases* before; ///< null: this is the first one
    uint32_t size;
    [[nodiscard]] CounterBase* entries() { return reinterpret_cast<CounterBase*>(this + 1); }
};

/// Counts that no live queue keeps.
struct PortTotals {
    RxCounters rx; ///< of queues that were released since the last statistics reset
    TxCounters tx;
    uint64_t unread = 0;        ///< packets left in Rx rings when they were stopped
    uint64_t unsent = 0;        ///< packets that Tx queues still held when they were stopped
    uint64_t missed = 0;        ///< by queues that the device counts separately, in total
    uint64_t out_of_buffer = 0; ///< by all others on the RDMA port, as the primary last read it
    uint64_t missed_base = 0;   ///< the sum of these two at the last reset
    CounterBases* hardware_bases = nullptr; ///< at the last xstats reset; null: there was none
};

/// What determines the burst functions of a port, so that each process can choose its own.
struct SharedBursts {
    uint64_t rx_offloads = 0;
    uint64_t tx_offloads = 0;
    uint16_t inline_bytes = 0;
    uint8_t rx_segments = 1;
    bool real_time = false;
    bool multi_packet = false;
    InlineMode min_inline = InlineMode::none;
    bool metadata = false;
    bool work_requests = false;

    /// Stores what determines the burst functions.
    void note(const RxSpec& spec);
    void note(const TxSpec& spec); ///< as settled
    /// Specs with just these values, for the CPU and EAL of this process.
    [[nodiscard]] RxSpec rx_spec() const;
    [[nodiscard]] TxSpec tx_spec() const;
};

using RingFormats = std::span<const RingFormat* const>;

/// dev_private: what ethdev allocates for a port.
struct SharedPort {
    std::array<char, 64> device{};   ///< RDMA device
    std::array<char, 16> netdev{};   ///< its Linux interface; empty: none visible
    std::array<char, 128> sysfs{};   ///< root of the tree to look in
    std::array<char, 64> firmware{}; ///< its version
    uint8_t ib_port = 1;
    uint8_t format = 0;    ///< its place among the formats
    bool striding = false; ///< that format's striding variant
    /// Queues are running or about to: QueueState is valid. False before they stop.
    bool running = false;
    bool lost = false; ///< the RDMA device has failed or was removed
    /// Why other processes cannot use the rings; empty: they can.
    std::array<char, 128> not_shareable{};
    bool shared = false;     ///< another process has used them
    rte_eth_dev_info info{}; ///< as rte_eth_dev_info_get returns, without pointers
    MrTable* mrs = nullptr;  ///< in DPDK's heap, too
    SharedBursts bursts;
    RssState rss;
    PortTotals totals;
    std::array<SharedRxQueue, RTE_MAX_QUEUES_PER_PORT> rx{};
    std::array<SharedTxQueue, RTE_MAX_QUEUES_PER_PORT> tx{};

    [[nodiscard]] static SharedPort& of(const rte_eth_dev* dev) {
        return *static_cast<SharedPort*>(dev->data->dev_private);
    }
    /// The port's format among all formats; set_ring_format() has noted which.
    [[nodiscard]] const RingFormat& ring_format(RingFormats formats) const;
    void set_ring_format(const RingFormat& wanted, RingFormats formats);
    void set_running(bool now) { __atomic_store_n(&running, now, __ATOMIC_RELEASE); }
    [[nodiscard]] bool is_running() const { return __atomic_load_n(&running, __ATOMIC_ACQUIRE); }
    void set_lost() { __atomic_store_n(&lost, true, __ATOMIC_RELAXED); }
    [[nodiscard]] bool is_lost() const { return __atomic_load_n(&lost, __ATOMIC_RELAXED); }
};
static_assert(std::is_trivially_copyable_v<SharedPort> &&
              std::is_trivially_destructible_v<SharedPort>);

} // namespace rawqp
