// SPDX-License-Identifier: BSD-3-Clause
// How far ahead bursts prefetch: each distance and its reason. What others cost is in
// doc/performance.md, "What was done about them". Readers of striding queues have no distance of
// their own: they prefetch the packets of the next vector step.
#pragma once

#include <cstdint>

namespace rawqp::ahead {

/// Mbufs of an Rx ring, in slots, beyond the burst's own end: otherwise a small burst would wait
/// for each of its mbufs. Where another core reads ahead behind long packets, mbufs are far, and 16
/// are too few.
inline constexpr uint32_t kMbufs = 32;
/// Packets of compressed blocks gain less by the other 16 than they lose where lines are near.
inline constexpr uint32_t kMbufsInBlocks = 16;

/// CQEs, one cache line each: two vector steps. Lines that the device has just written arrive
/// slowly, and by itself a CPU fetches too few of them at once.
inline constexpr uint32_t kCqes = 16;

/// WQEBBs of a Tx ring, at most: enough for 30 packets. With more, the prefetches of what follows,
/// often a receive burst, would have to wait.
inline constexpr uint32_t kWqebbs = 8;

/// Mbufs that are freed one by one. After a while at the device they are not in the first caches,
/// and the loop mostly waited for them: with attached packets 20 cycles each, 13 with the prefetch.
inline constexpr unsigned kFreedMbufs = 8;

/// Mbufs and headers on verbs rings, in packets. libmlx5 takes over a hundred instructions for a
/// packet, so four packets are time enough.
inline constexpr unsigned kVerbsPackets = 4;

} // namespace rawqp::ahead
