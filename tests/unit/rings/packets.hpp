// SPDX-License-Identifier: BSD-3-Clause
// Mbufs to send, with known contents.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <vector>

namespace rings_test {

inline uint8_t tx_pattern(uint32_t seed, uint32_t offset) {
    return static_cast<uint8_t>(seed * 13 + offset * 5 + (offset >> 8));
}

/// A packet whose segments have the given lengths; null when the pool is empty.
inline rte_mbuf* make_packet(rte_mempool* pool, uint32_t seed,
                             const std::vector<uint16_t>& lengths) {
    rte_mbuf* head = nullptr;
    rte_mbuf* last = nullptr;
    uint32_t at = 0;
    for (const uint16_t length : lengths) {
        rte_mbuf* segment = rte_pktmbuf_alloc(pool);
        if (segment == nullptr) return nullptr;
        auto* data = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(segment, length));
        for (uint16_t i = 0; i < length; ++i)
            data[i] = tx_pattern(seed, at++);
        if (head == nullptr) {
            head = segment;
        } else {
            last->next = segment;
            head->pkt_len += length;
            ++head->nb_segs;
        }
        last = segment;
    }
    return head;
}

} // namespace rings_test
