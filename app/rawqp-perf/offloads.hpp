// SPDX-License-Identifier: BSD-3-Clause
// What a port does for each received packet besides delivering it.
#pragma once

#include "app/rawqp-perf/dpdk.hpp"

#include <string>
#include <vector>

namespace perf {

struct Offloads {
    bool checksum = false; ///< of IP, UDP and TCP
    bool rss = false;      ///< the hash in the mbuf
    bool vlan = false;     ///< frames arrive with a tag, which is stripped into the mbuf
    bool mark = false;     ///< a flow rule marks them

    /// From "checksum", "rss", "vlan", "mark".
    static Offloads of(const std::vector<std::string>& names);

    /// RTE_ETH_RX_OFFLOAD_*
    [[nodiscard]] uint64_t rx() const;
    /// RTE_MBUF_F_RX_* flags that each mbuf has.
    [[nodiscard]] uint64_t flags() const;
};

/// Marks every packet that the port receives. Packets go to its first queue, hashed if it has an
/// RSS hash. Throws std::runtime_error.
void mark_all(uint16_t port, uint64_t hash_types);

} // namespace perf
