// SPDX-License-Identifier: BSD-3-Clause
// Verifies in software the checksums of received packets that no device has vouched for.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

namespace rawqp {

/// What the packet itself shows about its IPv4 header's and its TCP or UDP checksum:
/// RTE_MBUF_F_RX_*_CKSUM_{GOOD,BAD}, or neither. Bad means wrong beyond doubt. In tunnels the
/// verdicts are about the inner packet, and good only if the outer one is good, too. Reads the
/// whole packet.
[[nodiscard]] uint64_t verify_checksums(const rte_mbuf& packet);

/// The "bad" flags of a packet that has just been described mean: the device has not said that the
/// checksum is right. It may be wrong, or the device could not verify it.
inline constexpr uint64_t kUnproven = RTE_MBUF_F_RX_IP_CKSUM_BAD | RTE_MBUF_F_RX_L4_CKSUM_BAD;

/// Replaces the packets' kUnproven flags with what the packets themselves show. Cold: few packets
/// have any.
[[gnu::cold]] void settle_checksums(rte_mbuf* const* packets, uint32_t count);

} // namespace rawqp
