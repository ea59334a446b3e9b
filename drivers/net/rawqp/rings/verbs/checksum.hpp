// SPDX-License-Identifier: BSD-3-Clause
// A checksum in software, where the verbs data path has no way to request it from the device.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp::verbsrings {

/// Computes the IPv4 header checksum of a packet to send, in place; l2_len and l3_len are set as
/// for RTE_MBUF_F_TX_IP_CKSUM. False: the packet ends within the header.
[[nodiscard]] bool set_ipv4_checksum(rte_mbuf& packet);

} // namespace rawqp::verbsrings
