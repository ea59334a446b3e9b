// SPDX-License-Identifier: BSD-3-Clause
// What the send rings of all formats share.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"
#include "drivers/net/rawqp/rings/tx_mbufs.hpp"

namespace rawqp {

/// Shortest packet that is sent: an Ethernet header. (A zero byte count would mean 2 GiB.)
inline constexpr uint32_t kMinTxBytes = RTE_ETHER_HDR_LEN;

/// Whether a queue with `max_segments` can send the packet; the bursts drop and count others.
[[nodiscard]] inline bool sendable(const rte_mbuf& packet, uint16_t max_segments) {
    return packet.nb_segs <= max_segments && packet.pkt_len >= kMinTxBytes;
}

/// EINVAL with the offending figure when a format cannot take the spec.
[[nodiscard]] Result<void> check_tx_spec(const TxSpec& spec);

/// Whether the application promised mbufs that go back to their pool as they are.
[[nodiscard]] constexpr bool whole_packets_of_one_pool(uint64_t offloads) {
    return (offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) &&
           !(offloads & RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
}

/// Turns the packets from TxMbufs position `first` on from sent into errors.
void count_lost(TxRing& ring, TxMbufs& mbufs, uint16_t first);

/// A packet that the queue cannot send: frees it and counts an error.
[[gnu::noinline, gnu::cold]] void drop(TxRing& ring, rte_mbuf* packet);

/// eth_tx_prep_t of all formats; `queue` is a TxRing. Sets rte_errno to EINVAL (malformed packet)
/// or ENOTSUP (offload not enabled on the queue).
uint16_t tx_prepare(void* queue, rte_mbuf** packets, uint16_t count);

} // namespace rawqp
