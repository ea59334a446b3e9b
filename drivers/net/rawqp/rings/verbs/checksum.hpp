// SPDX-License-Identifier: BSD-3-Clause
// A checksum in software, where the verbs data path has no way to request it from the device.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp::verbsrings {

/// Whether the packet holds an IPv4 header as its l2_len and l3_len say.
[[nodiscard]] bool has_ipv4_header(const rte_mbuf& packet);

/// Computes the IPv4 header checksum of a packet to send, in place; l2_len and l3_len are set as
/// for RTE_MBUF_F_TX_IP_CKSUM. False: there is no such header.
[[nodiscard]] bool set_ipv4_checksum(rte_mbuf& packet);

} // namespace rawqp::verbsrings
