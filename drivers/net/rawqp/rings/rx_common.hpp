// SPDX-License-Identifier: BSD-3-Clause
// What the receive rings of all formats share: checks, buffer geometry, mempool access.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

#include <algorithm>

namespace rawqp {

/// EINVAL with the offending figure when a format cannot take the spec.
[[nodiscard]] Result<void> check_rx_spec(const RxSpec& spec);

/// How packets lie in the mbufs of a queue.
struct RxBuffers {
    uint64_t rearm;      ///< the mbuf's rearm word: data_off, refcnt 1, nb_segs 1, port
    uint64_t base_flags; ///< ol_flags that the pool's mbufs must keep
    uint16_t headroom;   ///< before the data of a packet's first segment
    uint16_t first_room; ///< bytes that the first segment takes
    uint16_t next_room;  ///< bytes that a further one takes: it has no headroom
};
[[nodiscard]] RxBuffers rx_buffers(const RxSpec& spec);
/// The same for each of the spec's segments.
[[nodiscard]] std::vector<RxSegment> rx_layout(const RxSpec& spec);

/// A queue of `wqes` WQEs is refilled when this many of them lack buffers.
[[nodiscard]] constexpr uint16_t refill_batch(uint32_t wqes) {
    // A multiple of a cache line of pointers; amortises the doorbell.
    constexpr uint32_t kBatch = 32;
    return static_cast<uint16_t>(std::clamp(wqes / 4, 1u, kBatch));
}
/// The refill batch of a queue that is not started: polling it all the same posts no buffers.
inline constexpr uint16_t kNoRefill = UINT16_MAX;

/// Whether packets may arrive in the queue once it is started, so that one may wait for them: a
/// started one that lacks all buffers gets some first, by `refill`. Not while a burst runs.
template <class Ring> [[nodiscard]] bool may_wait(Ring& ring, void (*refill)(Ring&)) {
    if (ring.refill_batch == kNoRefill) return true;
    if (ring.posted() == 0) refill(ring);
    return ring.posted() != 0;
}

/// Initialises a received mbuf's fields with RxBuffers::rearm. Uses memcpy because the word
/// overlays fields that are read with their own types.
inline void rearm_mbuf(rte_mbuf& mbuf, uint64_t rearm) {
    memcpy(compat::mbuf_rearm_word(&mbuf), &rearm, sizeof rearm);
}

/// Offloads that few applications ask for; bursts without them are faster.
inline constexpr uint64_t kRxExtras = RTE_ETH_RX_OFFLOAD_TIMESTAMP | RTE_ETH_RX_OFFLOAD_KEEP_CRC;

struct RxExtras {
    uint64_t timestamp_flag = 0; ///< of ol_flags; 0: no time stamps
    /// Offset of the mbuf's dynamic field. Without time stamps, that of a field that receive leaves
    /// undefined: a burst that also serves queues with time stamps may write them there all the
    /// same.
    int timestamp_offset = offsetof(rte_mbuf, tx_offload);
    uint8_t crc_bytes = 0; ///< at the end of the packet, not part of its length
};
/// ENOTSUP when the mbuf has no place for a time stamp.
[[nodiscard]] Result<RxExtras> rx_extras(const RxSpec& spec);

inline void stamp(rte_mbuf& mbuf, const RxExtras& extras, uint64_t time) {
    if (extras.timestamp_flag == 0) return;
    *RTE_MBUF_DYNFIELD(&mbuf, extras.timestamp_offset, rte_mbuf_timestamp_t*) = time;
    mbuf.ol_flags |= extras.timestamp_flag;
}

/// Mbuf flags that packets may have: those of checksums as RTE_ETH_RX_OFFLOAD_* ask for them; those
/// of a VLAN tag in any case, as stripping may be turned on later.
[[nodiscard]] uint64_t rx_flags(uint64_t offloads);

/// The error of a failed start: the pool of `ring` does not hold `wanted` usable mbufs.
[[nodiscard]] tl::unexpected<Error> not_enough_mbufs(const RxRing& ring, const rte_mempool* pool,
                                                     uint32_t wanted);

/// `count` raw mbufs, or none.
[[nodiscard]] inline bool take_mbufs(rte_mempool* pool, rte_mbuf** mbufs, unsigned count) {
    return rte_mempool_get_bulk(pool, reinterpret_cast<void**>(mbufs), count) == 0;
}
void return_mbufs(rte_mbuf** mbufs, unsigned count); ///< to the pool of all of them

/// Counts each missing buffer once, however often a burst asks the empty pool again. `due` is how
/// many were missing and counted before.
inline void count_nombuf(RxCounters& counters, uint16_t& due, uint16_t missing) {
    if (missing > due) count_up(counters.nombuf, missing - due);
    due = missing;
}

} // namespace rawqp
