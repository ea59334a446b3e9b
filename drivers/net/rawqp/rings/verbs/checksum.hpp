// SPDX-License-Identifier: BSD-3-Clause
// A checksum in software, where the verbs data path has no way to request it from the device.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp::verbsrings {

/// Whether the packet holds an IPv4 header as its l2_len and l3_len say.
[[nodiscard]] bool has_ipv4_header(const rte_mbuf& packet);

/// The packet with its IPv4 header checksum; l2_len and l3_len are set as for
/// RTE_MBUF_F_TX_IP_CKSUM. That is the packet itself if the checksum is right already or nobody
/// else holds the bytes to be written, and otherwise a copy, which is the caller's as well. Null:
/// there is no such header, or no mbuf for a copy.
[[nodiscard]] rte_mbuf* with_ipv4_checksum(rte_mbuf& packet);

} // namespace rawqp::verbsrings
