// SPDX-License-Identifier: BSD-3-Clause
// One ethdev port, set up and running. Errors throw std::runtime_error: rawqp-perf ends with them.
#pragma once

#include "app/rawqp-perf/dpdk.hpp"
#include "app/rawqp-perf/offloads.hpp"
#include "app/rawqp-perf/pools.hpp"

#include <cstdint>
#include <string>

namespace perf {

struct PortSetup {
    uint16_t queues = 1;
    uint16_t descriptors = 1024;
    bool fast_free = true;
    Offloads offloads = {};
    unsigned spare_mbufs = 4096; ///< in addition to what the rings hold
    std::string heap = {};       ///< its own heap for the rings; empty: the shared one
    bool last = false;           ///< the port is not set up again, and closed with this
};

/// An error from a call that returned `status`, with its errno text.
[[noreturn]] void fail_call(const std::string& what, int status);

/// Configures and starts the port; stops it at the end, or closes it. In a secondary process the
/// port is used as the primary's Port of that number has set it up. Must be used on one lcore.
class Port {
  public:
    /// Number of mbufs in its pool.
    static unsigned mbufs(const PortSetup& setup);

    /// With its own memory on huge pages; or with `pool`, which has mbufs(setup) mbufs and outlives
    /// it, and rings where EAL puts them.
    Port(uint16_t id, const PortSetup& setup, rte_mempool* pool = nullptr);
    ~Port();
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;

    /// Throws when it does not come up within seconds. Both ends must have been started.
    void wait_for_link() const;

    uint16_t rx(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
        return rte_eth_rx_burst(id_, queue, mbufs, count);
    }
    uint16_t tx(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
        return rte_eth_tx_burst(id_, queue, mbufs, count);
    }
    [[nodiscard]] uint16_t id() const { return id_; }
    [[nodiscard]] uint16_t queues() const { return queues_; }
    [[nodiscard]] rte_mempool* pool() const { return pool_; }
    [[nodiscard]] rte_ether_addr mac() const;
    [[nodiscard]] std::string driver() const;
    /// "rx mode, tx mode" as the driver names them; empty where it does not.
    [[nodiscard]] std::string modes() const;
    /// Its burst functions.
    [[nodiscard]] std::vector<const void*> bursts() const {
        return {reinterpret_cast<const void*>(rte_eth_fp_ops[id_].rx_pkt_burst),
                reinterpret_cast<const void*>(rte_eth_fp_ops[id_].tx_pkt_burst)};
    }
    /// A port has no mbuf stack besides the pool's.
    [[nodiscard]] static std::vector<MemorySpan> stack() { return {}; }
    /// Before a round: no effect, a port is always ready.
    void ready() {}

  private:
    void configure(const PortSetup& setup, int socket);
    [[nodiscard]] std::string pool_name() const;

    uint16_t id_;
    bool primary_;
    uint16_t queues_;
    bool last_;
    Pool own_pool_;
    rte_mempool* pool_;
};

} // namespace perf
