// SPDX-License-Identifier: BSD-3-Clause
// The port's own receive rules: unicast MACs, broadcast, multicast, promiscuous, spread by RSS.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/steering/rss.hpp"

#include <vector>

namespace rawqp {

class Steering;

/// The wanted state, collected by ethdev operations.
struct FilterState {
    std::vector<rte_ether_addr> macs;      ///< unicast addresses of the port
    std::vector<rte_ether_addr> multicast; ///< subscribed groups
    std::vector<uint16_t> vlans;           ///< VLAN filter; empty: any
    bool promiscuous = false;
    bool all_multicast = false;
    std::vector<uint16_t> reta; ///< queue per entry, power-of-two length
    RssKey key = kDefaultRssKey;
    uint64_t rss_types = 0; ///< RTE_ETH_RSS_*; 0: everything to reta[0]
};

class Filters {
  public:
    explicit Filters(Steering& steering);
    ~Filters();

    /// Makes the installed rules equal to `state`: adds first, then removes what is no longer
    /// wanted, so that traffic wanted both before and after is never interrupted. On failure the
    /// rules are as they were. Lower steering priority than rte_flow rules.
    [[nodiscard]] Result<void> apply(const FilterState& state);
    /// Removes every rule (port stop, isolated mode).
    void clear();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace rawqp
