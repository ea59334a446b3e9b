// SPDX-License-Identifier: BSD-3-Clause
// What a ring needs from the process that it runs in. Rings lie in memory that several processes
// share, so they hold no pointer that is valid in one of them only: by port number they look up
// here the object that does for them, in this process, whatever takes more than plain data.
#pragma once

#include "common/verbs/api.hpp"

#include <array>
#include <cstdint>
#include <mutex>

struct rte_mempool;

namespace rawqp {

struct RxRing;
struct TxRing;

struct MrEntry {
    uintptr_t start = 0;
    uintptr_t end = 0;    ///< one past the last byte
    uint32_t lkey = 0;    ///< host order
    uint32_t lkey_be = 0; ///< as WQEs hold it
};

/// One per port and process. Everything here is for cold paths.
class RingHost {
  public:
    /// Called when `address` is not in the port's MrTable. Registers the memory that holds it (a
    /// mempool chunk or DPDK heap memory that appeared at run time) and returns its entry by value;
    /// false when the memory cannot be registered (logged once per cause). Thread-safe.
    virtual bool register_address(uintptr_t address, MrEntry& entry) = 0;

    /// Called when an error CQE stopped the queue. Takes its WQ or QP to reset and back to ready,
    /// after which the ring starts over. Called on the queue's lcore; returns 0 or a negative errno
    /// (the queue stays dead, and the call is made again on a later burst, at most once per
    /// millisecond).
    virtual int reset(RxRing& ring) = 0;
    virtual int reset(TxRing& ring) = 0;

    /// Reads how the device's clock translates to real time at present. Returns 0 or an errno
    /// value.
    virtual int read_clock(mlx5dv_clock_info& info) = 0;
    /// Reads the device's clock in ticks: rte_eth_read_clock() without the devarg rx_timestamp.
    /// Returns the same.
    virtual int read_clock(uint64_t& ticks) = 0;

    /// Bytes from each mbuf of the pool to its buffer, when they are the same for all and none has
    /// an external buffer; else 0. Walks such a pool once, however many queues use it, and again
    /// when it has grown or `generation` (MrTable's) has changed. Thread-safe.
    [[nodiscard]] uint32_t buffer_offset(rte_mempool* pool, uint32_t generation);

  protected:
    ~RingHost() = default;

  private:
    struct Layout {
        const rte_mempool* pool = nullptr;
        uint32_t size = 0; ///< mbufs that it had
        uint32_t generation = 0;
        uint32_t buffer_offset = 0;
    };
    std::mutex layouts_mutex_;
    std::array<Layout, 8> layouts_; ///< of the pools walked last
    uint8_t next_layout_ = 0;       ///< of layouts_, to overwrite
};

/// The port's RingHost in this process. It exists from before the port's first ring until after its
/// last.
[[nodiscard]] RingHost& ring_host(uint16_t port_id);
void set_ring_host(uint16_t port_id, RingHost* host);

} // namespace rawqp
