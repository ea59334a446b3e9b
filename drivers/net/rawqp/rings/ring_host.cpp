// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/ring_host.hpp"

#include "drivers/net/rawqp/dpdk.hpp"

#include <atomic>

namespace rawqp {
namespace {

constinit std::array<std::atomic<RingHost*>, RTE_MAX_ETHPORTS> hosts{};

} // namespace

RingHost& ring_host(uint16_t port_id) { return *hosts[port_id].load(std::memory_order_acquire); }

void set_ring_host(uint16_t port_id, RingHost* host) {
    hosts[port_id].store(host, std::memory_order_release);
}

} // namespace rawqp
