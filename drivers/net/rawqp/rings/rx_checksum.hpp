// SPDX-License-Identifier: BSD-3-Clause
// Checksums of received packets in software: of what no device has vouched for.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

/// What the packet itself shows of its IPv4 header's and its TCP or UDP checksum:
/// RTE_MBUF_F_RX_*_CKSUM_{GOOD,BAD}, or neither. Bad is what is wrong beyond doubt. In tunnels the
/// verdicts are about the inside, and good when the outside is, too. Reads all of the packet.
[[nodiscard]] uint64_t verify_checksums(const rte_mbuf& packet);

/// The "bad" flags of a packet that has just been described: the device has not said that the
/// checksum is right. It says so of a wrong one, and of one that it could not verify.
inline constexpr uint64_t kUnproven = RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_BAD;

/// Puts what the packets show in the place of their kUnproven flags. Cold: few packets have any.
[[gnu::cold]] void settle_checksums(rte_mbuf* const* packets, uint32_t count);

} // namespace rawqp
