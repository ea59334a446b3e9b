// SPDX-License-Identifier: BSD-3-Clause
// Checksums in software, where the verbs data path has no way to ask the device.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp::verbsrings {

/// Verdicts on a received packet's IPv4 header and TCP or UDP checksum: RTE_MBUF_F_RX_*_CKSUM_*.
/// Unknown for fragments, other protocols, and IPv6 with extension headers. Reads all of the
/// packet. `type` and `lens` are what rte_net_get_ptype said of it.
[[nodiscard]] uint64_t verify_checksums(const rte_mbuf& packet, uint32_t type,
                                        const rte_net_hdr_lens& lens);

/// Computes the IPv4 header checksum of a packet to send, in place; l2_len and l3_len are set as
/// for RTE_MBUF_F_TX_IP_CKSUM. False: the header is not within the first segment.
[[nodiscard]] bool set_ipv4_checksum(rte_mbuf& packet);

} // namespace rawqp::verbsrings
