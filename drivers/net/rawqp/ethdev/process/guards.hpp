// SPDX-License-Identifier: BSD-3-Clause
// How a secondary process lets go of queues that the primary is about to stop: its application
// polls guards instead of rings, and a guard tells whether somebody is inside.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

#include <array>

namespace rawqp {

/// What ethdev's fast path gets as the queue. A closed guard's bursts are empty. The marks around a
/// burst are plain stores: whoever closes it makes all threads of the process see the same order
/// (membarrier), so that bursts pay nothing until then.
template <class Burst> struct alignas(RTE_CACHE_LINE_SIZE) QueueGuard {
    uint32_t inside = 0;   ///< a burst is running; written by the queue's lcore only
    uint32_t visitors = 0; ///< calls that any thread may make: status, count
    Burst burst = nullptr; ///< null: closed
    void* ring = nullptr;  ///< valid while open
    const RingFormat* format = nullptr;
    uint32_t set_up = 0; ///< which set-up of the queue the ring is of

    void open(void* queue_ring, Burst function, uint32_t of_set_up) {
        ring = queue_ring;
        set_up = of_set_up;
        __atomic_store_n(&burst, function, __ATOMIC_RELEASE);
    }
    void close() { __atomic_store_n(&burst, Burst{}, __ATOMIC_RELAXED); }
    [[nodiscard]] Burst entrance() const { return __atomic_load_n(&burst, __ATOMIC_ACQUIRE); }
    [[nodiscard]] bool is_open() const { return entrance() != nullptr; }
    [[nodiscard]] bool occupied() const {
        return __atomic_load_n(&inside, __ATOMIC_ACQUIRE) != 0 ||
               __atomic_load_n(&visitors, __ATOMIC_ACQUIRE) != 0;
    }
};
using RxGuard = QueueGuard<eth_rx_burst_t>;
using TxGuard = QueueGuard<eth_tx_burst_t>;

/// The guards of one port, for as many queues as a port may have: applications may keep using them
/// as long as the process lives, so they are never freed.
struct PortGuards {
    std::array<RxGuard, RTE_MAX_QUEUES_PER_PORT> rx;
    std::array<TxGuard, RTE_MAX_QUEUES_PER_PORT> tx;
    std::array<void*, RTE_MAX_QUEUES_PER_PORT> rx_data; ///< their addresses, as ethdev wants them
    std::array<void*, RTE_MAX_QUEUES_PER_PORT> tx_data;

    rte_eth_dev_data closed{};                             ///< SecondaryPort::data_of_closed()
    std::array<void*, RTE_MAX_QUEUES_PER_PORT> no_rings{}; ///< of it
    rte_ether_addr no_address{};                           ///< of it

    /// The same object for each attachment of the port in this process.
    [[nodiscard]] static PortGuards& of(uint16_t port_id);
    /// Makes ethdev call them for the port.
    void install(rte_eth_dev& dev, const RingFormat& format);

    /// Waits until nobody is inside a closed guard, `milliseconds` at most. False: somebody still
    /// is.
    [[nodiscard]] bool wait_until_left(unsigned milliseconds) const;
};

/// ethdev's tx_done_cleanup, guarded like a burst of the ring's queue. -EIO: it is closed.
int guarded_tx_done_cleanup(void* ring, uint32_t count) noexcept;

} // namespace rawqp
