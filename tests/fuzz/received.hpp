// SPDX-License-Identifier: BSD-3-Clause
// The application behind a fuzzed receive ring.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <set>
#include <span>
#include <string>
#include <vector>

namespace fuzz {

/// Checks what bursts return, and keeps some of it for a while.
class Received {
  public:
    Received(const rte_mempool* pool, unsigned segments) : pool_(pool), segments_(segments) {}
    Received(const Received&) = delete;
    Received& operator=(const Received&) = delete;

    /// Returns what is wrong with a burst's packets, which are then not freed; empty: nothing.
    std::string take(std::span<rte_mbuf* const> packets, bool keep) {
        for (const rte_mbuf* const packet : packets)
            if (std::string wrong = check(packet); !wrong.empty()) return wrong;
        kept_.insert(kept_.end(), packets.begin(), packets.end());
        if (!keep) release(packets.size());
        return {};
    }
    /// Frees all kept packets.
    void release() { release(kept_.size()); }

  private:
    std::string check(const rte_mbuf* packet) {
        if (packet == nullptr) return "a null mbuf";
        unsigned segments = 0;
        for (const rte_mbuf* at = packet; at != nullptr; at = at->next) {
            if (at->pool != pool_) return "an mbuf of no pool";
            if (!out_.insert(at).second) return "an mbuf that is out already";
            if (!out_.insert(rte_pktmbuf_mtod(at, const void*)).second)
                return "data memory that is out already";
            if (rte_mbuf_refcnt_read(at) != 1) return "an mbuf that is free or shared";
            if (++segments > segments_) return "a chain longer than a WQE";
        }
        return segments == packet->nb_segs ? "" : "nb_segs is wrong";
    }
    void release(size_t count) {
        rte_mbuf** const first = kept_.data() + kept_.size() - count;
        for (size_t i = 0; i < count; ++i) {
            for (const rte_mbuf* at = first[i]; at != nullptr; at = at->next) {
                out_.erase(at);
                out_.erase(rte_pktmbuf_mtod(at, const void*));
            }
        }
        rte_pktmbuf_free_bulk(first, static_cast<unsigned>(count));
        kept_.resize(kept_.size() - count);
    }

    const rte_mempool* pool_;
    unsigned segments_;
    std::vector<rte_mbuf*> kept_;
    std::set<const void*> out_; ///< mbufs, and the start of their data
};

} // namespace fuzz
