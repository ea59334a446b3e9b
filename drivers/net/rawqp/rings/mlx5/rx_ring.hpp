// SPDX-License-Identifier: BSD-3-Clause
// A receive queue on mapped mlx5 rings: a cyclic RQ and its CQ.
//
// Slot i of the ring is receive WQE i: `segments` SGEs and as many mbufs, each of which ethdev
// calls a descriptor. A packet takes the mbufs that it fills and leaves the others in the slot.
// WQEs complete in order, so the slots [cq.rq_consumer, producer) belong to the device; the others
// wait for buffers. When the mempool is empty the ring gets shorter until buffers are back: packets
// already received are never dropped for lack of buffers, and the device counts those that find no
// buffer (or holds up the wire).
//
// The device may compress completions into blocks (see mlx5::MiniCqe). The CQ's consumer index
// stays at a block's title until all of the block's packets are taken.
#pragma once

#include "common/lines.hpp"
#include "common/result.hpp"
#include "drivers/net/rawqp/rings/mlx5/cq.hpp"
#include "drivers/net/rawqp/rings/mlx5/device_clock.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_block.hpp"
#include "drivers/net/rawqp/rings/recovery.hpp"
#include "drivers/net/rawqp/rings/rx_common.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"

#include <array>

namespace rawqp::mlx5rings {

/// The cache line that a burst works on, besides the counters.
struct alignas(RTE_CACHE_LINE_SIZE) RxPollLine {
    Cq cq;
    rte_mbuf** mbufs = nullptr; ///< slot * segments + segment
    uint16_t producer = 0;      ///< WQEs posted
    uint16_t mask = 0;
    uint16_t refill_batch = 0; ///< buffers are replaced this many at a time
    uint64_t rearm = 0;        ///< data_off, refcnt, nb_segs, port of a received mbuf
    uint16_t flags_mask = 0;   ///< of kReceiveFlags: see rx_flags
    uint16_t hash_flag = 0;    ///< RTE_MBUF_F_RX_RSS_HASH or 0
    uint8_t log_segments = 0;
    uint8_t segments = 1;
};
static_assert(sizeof(RxPollLine) == RTE_CACHE_LINE_SIZE);

/// The cache line that refills and scattered packets need as well.
struct alignas(RTE_CACHE_LINE_SIZE) RxRefillLine {
    mlx5::WqeDataSeg* wqes = nullptr;
    mlx5::be32* doorbell = nullptr; ///< receive counter of the RQ's doorbell record
    rte_mempool* pool = nullptr;
    uint64_t base_flags = 0; ///< RTE_MBUF_F_EXTERNAL for pools of pinned external buffers
    /// What precedes the address in each one-segment WQE: its byte count and lkey.
    uint64_t wqe_head = 0;
    /// Distance from an mbuf to where the device puts data, if the whole pool has the same; else 0.
    uint16_t data_offset = 0;
    uint16_t nombuf_due = 0; ///< missing buffers already counted in nombuf
    uint32_t pool_size = 0;  ///< mbufs of the pool when these were found out
    RxExtras extras;         ///< bursts read it even when there are none
};
static_assert(sizeof(RxRefillLine) == RTE_CACHE_LINE_SIZE);

/// Prefetches for writing the WQEs of `count` packets that have arrived: the device has read them,
/// and the refill is about to write them. Not those of later packets, which the device may have yet
/// to read; a last line that also holds such WQEs may be left to them.
inline void claim_wqes(const mlx5::WqeDataSeg* wqes, uint32_t count) {
    claim_lines(reinterpret_cast<const std::byte*>(wqes), count * sizeof *wqes);
}

struct MlxRxRing : RxRing, RxPollLine, RxRefillLine {
    RxBlock block;
    DeviceClock clock; ///< with real-time stamps
    CqArm cq_arm;
    std::array<RxSegment, kMaxRxSegments> layout; ///< of the mbufs of a packet
    [[nodiscard]] const RxSegment& segment(uint32_t i) const { return layout[i]; }

    PtpStamps ptp;

    // Control and error path.
    MrCache mrs;
    RetryGate retry;
    /// An error CQE was counted, but the buffers are not reposted yet. Meanwhile refill_batch is
    /// kRecover: another process may have to go on from wherever one is killed.
    bool faulty = false;
    bool slots_cleared = false; ///< meanwhile: free slots no longer point at mbufs that were taken
    bool may_compress = false;  ///< the CQ was created with compression
    bool split = false;         ///< segments come from several pools
    /// Ends in ahead::kMbufs empty slots, so that no prefetch has to test for the ring's end.
    SocketArray<rte_mbuf*> mbuf_memory;

    void set_wqe_head(uint32_t lkey_be) { // as a little-endian number
        wqe_head = uint64_t{lkey_be} << 32 | net::to_be(uint32_t{segment(0).room});
    }
    /// Whether the whole pool is in one MR; never true of rings with several pools.
    [[nodiscard]] bool one_lkey() const { return wqe_head >> 32 != 0; }

    /// Points SGE `index` of the ring at the mbuf's data; its byte count was written at start.
    /// False: that memory cannot be registered.
    [[nodiscard]] bool write_segment(uint32_t index, const rte_mbuf& mbuf) {
        const auto buffer = reinterpret_cast<uintptr_t>(mbuf.buf_addr);
        const uintptr_t address = buffer + segment(index & (segments - 1u)).offset;
        const MrEntry* mr = mrs.find(address);
        if (mr == nullptr) return false;
        wqes[index].lkey.raw = mr->lkey_be;
        wqes[index].addr = address;
        return true;
    }

    [[nodiscard]] uint16_t posted() const {
        return static_cast<uint16_t>(producer - cq.rq_consumer);
    }
    [[nodiscard]] uint16_t missing() const { return static_cast<uint16_t>(mask + 1 - posted()); }
    [[nodiscard]] uint32_t descriptors() const { return (mask + 1u) << log_segments; }
    [[nodiscard]] uint32_t slots_to_end() const { return mask + 1u - (cq.rq_consumer & mask); }

    /// The WQE of the packet at the consumer index, before those of later packets to the ring's
    /// end.
    [[nodiscard]] const mlx5::WqeDataSeg* next_wqes() const { return &wqes[cq.rq_consumer & mask]; }

    /// Tells the device about the WQEs up to `producer`, after giving back CQ entries: the CQ has
    /// one for each WQE that may be posted, and more where blocks hold some up.
    void ring_doorbell() {
        cq.publish_consumer();
        wqes_before_record();
        store_record(*doorbell, producer);
    }
};
static_assert(sizeof(RxRing) <= RTE_CACHE_LINE_SIZE); // counters: the line before these

ibv_cq_ex* rx_compressed_cq(const RxSpec& spec, ibv_cq_init_attr_ex& attributes);
Result<RxRing*> rx_create(const RxSpec& spec);
Result<void> rx_start(RxRing& ring);
uint32_t rx_stop(RxRing& ring);
void rx_destroy(RxRing* ring);
uint32_t rx_queue_count(void* queue);
int rx_descriptor_status(void* queue, uint16_t offset);

/// Which kind of mini CQE serves these offloads: with a hash, or else with a checksum.
[[nodiscard]] constexpr bool rx_hashes_in_blocks(uint64_t offloads) {
    return (offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH) != 0;
}

/// The burst function for the spec's options.
Burst<eth_rx_burst_t> rx_burst(const RxSpec& spec);

/// Gives new buffers to every slot that lacks some, as far as the pool has them, and rings the
/// doorbell. Bursts call it when refill_batch slots wait.
void refill(MlxRxRing& ring);

/// RingFormat::rx_arm: a ring that lacks all buffers gets some first.
int rx_arm_filled(RxRing& ring);

/// A refill_batch that makes every burst call refill().
inline constexpr uint16_t kRecover = 0;
/// Cold: the CQE at the consumer index is an error. Counts the packet, has the WQ reset, and
/// reposts the buffers that the ring still holds. When the reset fails, the next burst tries again.
void recover(MlxRxRing& ring);

} // namespace rawqp::mlx5rings
