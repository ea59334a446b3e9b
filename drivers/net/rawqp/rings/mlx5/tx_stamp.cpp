// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/tx_stamp.hpp"

#include "drivers/net/rawqp/rings/mlx5/tx_schedule.hpp"

#include <algorithm>
#include <utility>

namespace rawqp::mlx5rings {
namespace {

/// The burst that sends, for each port in this process.
std::array<eth_tx_burst_t, RTE_MAX_ETHPORTS> plain_bursts;

bool wants_stamp(const rte_mbuf* packet) {
    return (packet->ol_flags & RTE_MBUF_F_TX_IEEE1588_TMST) != 0;
}

/// Sends a packet whose completion is to tell when it was sent.
bool send_one(MlxTxRing& ring, eth_tx_burst_t send, rte_mbuf** packet) {
    TxStamped stamped{.cqe = ring.cq.consumer, .wqe = ring.producer};
    const uint64_t recoveries = ring.counters.recoveries;
    const uint16_t usual = std::exchange(ring.ask_every, 1);
    const uint16_t taken = send(&ring, packet, 1);
    ring.ask_every = usual;
    if (taken == 0) return false;
    // Otherwise it was dropped, or the queue was reset.
    if (ring.producer != stamped.wqe && ring.counters.recoveries == recoveries) {
        if (is_wait(ring, stamped.wqe)) ++stamped.wqe;
        ring.stamped = stamped;
        __atomic_store_n(&ring.stamp_due, true, __ATOMIC_RELEASE);
    }
    return true;
}

/// Each packet to be stamped has its own burst, as bursts request the completion of their last WQE.
uint16_t send_stamping(void* queue, rte_mbuf** packets, uint16_t count) {
    auto& ring = *static_cast<MlxTxRing*>(queue);
    const eth_tx_burst_t send = plain_bursts[ring.port_id];
    if (count == 0) return send(queue, packets, 0); // which frees, and asks for completions
    rte_mbuf** const end = packets + count;
    rte_mbuf** next = packets;
    while (next != end) {
        rte_mbuf** const stop = std::find_if(next, end, wants_stamp);
        if (stop != next) {
            next += send(queue, next, static_cast<uint16_t>(stop - next));
            if (next != stop) break;
        } else {
            if (!send_one(ring, send, next)) break;
            ++next;
        }
    }
    return static_cast<uint16_t>(next - packets);
}

} // namespace

eth_tx_burst_t tx_stamping(uint16_t port_id, eth_tx_burst_t plain) {
    plain_bursts[port_id] = plain;
    return send_stamping;
}

std::optional<uint64_t> tx_take_stamp(TxRing& base) {
    auto& ring = static_cast<MlxTxRing&>(base);
    if (!__atomic_load_n(&ring.stamp_due, __ATOMIC_ACQUIRE)) return std::nullopt;
    const TxStamped stamped = ring.stamped;
    // Entries stay for one lap as the device wrote them, whether or not the lcore has taken them.
    // WQE indices repeat, too: later, the entry and the index could be those of another packet.
    const uint32_t taken = __atomic_load_n(&ring.cq.consumer, __ATOMIC_RELAXED);
    if (taken - stamped.cqe > ring.cq.mask) return std::nullopt;
    for (uint32_t index = stamped.cqe; index - stamped.cqe <= ring.cq.mask; ++index) {
        if (ring.cq.state(index) != CqeState::complete) return std::nullopt;
        owner_before_content();
        const Cqe& cqe = ring.cq.at(index);
        if (cqe.wqe_counter != stamped.wqe) continue;
        ring.stamp_due = false;
        return cqe.timestamp;
    }
    return std::nullopt;
}

} // namespace rawqp::mlx5rings
