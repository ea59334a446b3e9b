// SPDX-License-Identifier: BSD-3-Clause
// A receive queue over ibv_post_wq_recv and ibv_start_poll.
#pragma once

#include "drivers/net/rawqp/rings/pool_layout.hpp"
#include "drivers/net/rawqp/rings/recovery.hpp"
#include "drivers/net/rawqp/rings/rx_common.hpp"
#include "drivers/net/rawqp/rings/socket_memory.hpp"

#include <array>

namespace rawqp::verbsrings {

/// Slot i is work request i: `segments` SGEs and as many mbufs, each of which ethdev calls a
/// descriptor. A packet takes the mbufs that it fills and leaves the others in the slot. Requests
/// complete in order, so slots [consumer, producer) are posted; the others wait for buffers.
struct VerbsRxRing : RxRing {
    ibv_cq_ex* cq = nullptr;
    ibv_wq* wq = nullptr;
    rte_mbuf** mbufs = nullptr; ///< slot * segments + segment
    uint16_t consumer = 0;      ///< counts without end
    uint16_t producer = 0;
    uint16_t mask = 0;
    uint16_t refill_batch = 0;
    uint64_t rearm = 0;
    uint64_t base_flags = 0;
    uint64_t flags_mask = 0; ///< RTE_MBUF_F_RX_*_CKSUM_* that the offloads ask for
    uint16_t nombuf_due = 0;
    uint8_t segments = 1;
    uint8_t log_segments = 0;
    bool faulty = false;         ///< an error completion was taken, the reset is due
    bool unposted_empty = false; ///< every slot that is not posted lacks all its buffers
    bool strips_vlan = false;    ///< the control path turns it on and off
    bool split = false;          ///< segments come from several pools
    bool has_tags = false;       ///< the provider reads flow tags
    RxExtras extras;
    uint64_t (*read_stamp)(ibv_cq_ex* cq) = nullptr; ///< in ticks, or real time
    std::array<RxSegment, kMaxRxSegments> layout;    ///< of the mbufs of a packet
    [[nodiscard]] const RxSegment& segment(uint32_t i) const { return layout[i]; }
    rte_mempool* pool = nullptr;
    ibv_recv_wr* requests = nullptr; ///< by slot, each linked to the next one
    ibv_sge* sges = nullptr;         ///< as mbufs
    MrCache mrs;
    // The refill's short path: what all mbufs of the pool have in common.
    PoolKeys pools;
    uint16_t data_offset = 0; ///< from mbuf to data; 0: not common
    uint32_t pool_size = 0;   ///< mbufs that the pool had when this was found

    // Control and error path.
    RetryGate retry;
    unsigned error_status = 0; ///< ibv_wc_status
    unsigned error_vendor = 0;
    SocketArray<rte_mbuf*> mbuf_memory;
    SocketArray<ibv_recv_wr> request_memory;
    SocketArray<ibv_sge> sge_memory;

    /// Points SGE `index` at the mbuf's data; its length was written at creation. False: that
    /// memory cannot be registered.
    [[nodiscard]] bool write_segment(uint32_t index, const rte_mbuf& mbuf) {
        const auto buffer = reinterpret_cast<uintptr_t>(mbuf.buf_addr);
        const uintptr_t address = buffer + segment(index & (segments - 1u)).offset;
        const MrEntry* mr = mrs.find(address);
        if (mr == nullptr) return false;
        sges[index].addr = address;
        sges[index].lkey = mr->lkey;
        return true;
    }

    [[nodiscard]] uint16_t posted() const { return static_cast<uint16_t>(producer - consumer); }
    [[nodiscard]] uint16_t missing() const { return static_cast<uint16_t>(mask + 1 - posted()); }
    [[nodiscard]] uint32_t descriptors() const { return (mask + 1u) << log_segments; }
};

uint64_t rx_wc_flags(const RxSpec& spec);
/// RingFormat::stamps_real_time: the device's extended CQs tell the real time of completions.
bool stamps_real_time(const verbs::Api& api, ibv_context* context);
Result<RxRing*> rx_create(const RxSpec& spec);
Result<void> rx_start(RxRing& ring);
uint32_t rx_stop(RxRing& ring);
void rx_destroy(RxRing* ring);
int rx_arm(RxRing& ring);
Result<void> rx_strip_vlan(RxRing& ring, bool strip);
Burst<eth_rx_burst_t> rx_burst(const RxSpec& spec);

} // namespace rawqp::verbsrings
