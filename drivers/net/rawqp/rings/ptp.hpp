// SPDX-License-Identifier: BSD-3-Clause
// Time stamps of PTP messages (IEEE 1588), for rte_eth_timesync_*: when the last ones reached a
// queue, and when the last one for which an application asked was sent.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <array>

namespace rawqp {

/// Of a receive queue. Written by its lcore, read on control threads.
struct PtpStamps {
    /// Messages whose stamps are kept; mbuf::timesync tells which one is an mbuf's.
    static constexpr uint16_t kKept = 16;
    static_assert(RTE_MAX_QUEUES_PER_PORT * kKept <= UINT16_MAX + 1);

    std::array<uint64_t, kKept> stamps{}; ///< as in mbufs: ticks, or nanoseconds; 0: none
    uint16_t next = 0;
};

/// What a frame is to PTP.
enum class PtpKind : uint8_t {
    none,
    general, ///< Announce, Follow_Up, Delay_Resp, …
    event    ///< Sync, Delay_Req, Pdelay_Req, Pdelay_Resp: their time matters
};

/// Recognises PTP version 2 over Ethernet (type 0x88f7), or UDP ports 319 and 320 over IPv4 and
/// IPv6, with or without VLAN tags; looks at the first mbuf only.
[[nodiscard]] PtpKind ptp_kind(const rte_mbuf& packet);

/// Sets the flags of PTP messages among a burst's packets, and keeps the time stamps of events,
/// which the mbufs hold at `offset`.
void note_ptp(uint16_t queue_id, int offset, PtpStamps& stamps, rte_mbuf** packets, uint16_t count);

} // namespace rawqp
