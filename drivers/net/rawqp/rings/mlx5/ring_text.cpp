// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/ring_text.hpp"

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_ring.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_ring.hpp"
#include "drivers/net/rawqp/rings/ring_text.hpp"

#include <algorithm>
#include <vector>

namespace rawqp::mlx5rings {
namespace {

/// rte_eth_rx_descriptor_status() in words.
const char* status_text(int status) {
    switch (status) {
    case RTE_ETH_RX_DESC_AVAIL: return "posted";
    case RTE_ETH_RX_DESC_DONE: return "received";
    default: return "not posted";
    }
}

/// With compression, entries may be parts of a block rather than CQEs: only their words are shown.
std::string cq_entry_text(const Cq& cq, uint32_t index) {
    return words_text(fmt::format("cqe {}:", index & cq.mask).c_str(), &cq.at(index), sizeof(Cqe));
}

/// The WQEs in flight that request a completion, oldest first.
std::vector<uint16_t> requests_of(const MlxTxRing& ring) {
    std::vector<uint16_t> requests;
    uint32_t blocks; // of the WQE, which the queue's lcore may be writing just now
    for (uint32_t index = ring.completed, left = static_cast<uint16_t>(ring.producer - index);
         left > 0; index += blocks, left -= blocks) {
        const auto wqe = static_cast<uint16_t>(index);
        if (asks_for_completion(ring, wqe)) requests.push_back(wqe);
        blocks = std::clamp((wqe_segments(ring, wqe) + 3) / 4, 1u, left);
    }
    return requests;
}

/// Blocks [first, end) of the ring between two requests for completions: a segment that is not
/// completed was sent in one of them.
struct Blocks {
    uint16_t first, end;
};
Blocks blocks_of(const MlxTxRing& ring, uint16_t position) {
    Blocks blocks{ring.completed, ring.producer}; // after the last request
    const auto age = static_cast<uint16_t>(position - ring.done);
    for (const uint16_t request : requests_of(ring)) {
        const TxMark& mark = ring.mark(request);
        if (age < static_cast<uint16_t>(mark.segment - ring.done)) {
            blocks.end = mark.wqebb;
            break;
        }
        blocks.first = mark.wqebb;
    }
    return blocks;
}

} // namespace

Figures rx_figures(const RxRing& base) {
    const auto& ring = static_cast<const MlxRxRing&>(base);
    const uint16_t posted = ring.posted();
    return {{"wqe_consumer", ring.cq.rq_consumer},
            {"wqe_producer", ring.producer},
            {"wqes_posted", posted},
            {"wqes_missing", uint64_t{ring.mask} + 1 - posted},
            {"cq_consumer", ring.cq.consumer},
            {"descriptors_received",
             rx_queue_count(const_cast<RxRing*>(&base))}}; // which changes nothing
}

Figures striding_figures(const RxRing& base) {
    const auto& ring = static_cast<const StridingRing&>(base);
    return {{"wqe_consumer", static_cast<uint16_t>(ring.producer - ring.wqe_count())},
            {"strides_used", ring.used()},
            {"strides_posted", ring.posted()},
            {"cq_consumer", ring.cq.consumer},
            {"packets_received", striding_queue_count(const_cast<RxRing*>(&base))},
            {"mbufs_ready", ring.stashed}};
}

Figures tx_figures(const TxRing& base) {
    const auto& ring = static_cast<const MlxTxRing&>(base);
    return {{"block_producer", ring.producer},    {"blocks_completed", ring.completed},
            {"blocks_free", ring.free_wqebbs()},  {"segments_held", ring.mbufs.used()},
            {"segments_room", ring.mbufs.room()}, {"completions_awaited", requests_of(ring).size()},
            {"cq_consumer", ring.cq.consumer}};
}

std::string rx_descriptor_text(const RxRing& base, uint16_t offset) {
    const auto& ring = static_cast<const MlxRxRing&>(base);
    const uint32_t ahead = uint32_t{offset} >> ring.log_segments;
    const uint32_t slot = (ring.cq.rq_consumer + ahead) & ring.mask;
    const uint32_t index = (slot << ring.log_segments) + (offset & (ring.segments - 1u));
    const mlx5::WqeDataSeg& segment = ring.wqes[index];
    const int status = rx_descriptor_status(const_cast<RxRing*>(&base), offset);
    std::string text = fmt::format("descriptor {}: {}, wqe {}", offset, status_text(status), slot);
    if (status == RTE_ETH_RX_DESC_UNAVAIL) return text + "\n";
    text += ", " + sge_text(ring.mbufs[index], segment.addr, segment.byte_count, segment.lkey);
    return text + words_text("wqe:", &segment, sizeof segment) +
           cq_entry_text(ring.cq, ring.cq.consumer + ahead);
}

std::string striding_descriptor_text(const RxRing& base, uint16_t offset) {
    const auto& ring = static_cast<const StridingRing&>(base);
    const uint32_t stride = ring.used() + offset;
    const uint32_t slot = (ring.slot() + (stride >> ring.log_strides)) & ring.mask;
    const uint32_t number = stride & (ring.strides_per_wqe() - 1u);
    const StridingWqe& wqe = ring.wqes[slot];
    const int status = striding_descriptor_status(const_cast<RxRing*>(&base), offset);
    std::string text = fmt::format("descriptor {}: {}, wqe {}, stride {}", offset,
                                   status_text(status), slot, number);
    if (status == RTE_ETH_RX_DESC_UNAVAIL) return text + "\n";
    text += fmt::format(", {} bytes at {:#x}, lkey {:#x}\n", 1u << ring.log_stride_bytes,
                        wqe.data.addr + (uint64_t{number} << ring.log_stride_bytes),
                        uint32_t{wqe.data.lkey});
    return text + words_text("wqe:", &wqe, sizeof wqe) +
           cq_entry_text(ring.cq, ring.cq.consumer + offset);
}

std::string tx_descriptor_text(const TxRing& base, uint16_t offset) {
    const auto& ring = static_cast<const MlxTxRing&>(base);
    if (is_free(ring.mbufs, offset)) return fmt::format("descriptor {}: free\n", offset);
    const uint16_t position = position_of(ring.mbufs, offset);
    const rte_mbuf* const mbuf = ring.mbufs.at(position);
    if (is_done(ring.mbufs, position, ring.done)) return done_text(offset, mbuf);
    const Blocks blocks = blocks_of(ring, position);
    std::string text = fmt::format("descriptor {}: handed to the device, mbuf {}, somewhere in "
                                   "blocks {} to {}\n",
                                   offset, fmt::ptr(mbuf), blocks.first & ring.wqebb_mask,
                                   (blocks.end - 1u) & ring.wqebb_mask);
    for (uint16_t block = blocks.first; block != blocks.end; ++block)
        text += words_text(fmt::format("block {}:", block & ring.wqebb_mask).c_str(),
                           ring.wqebb(block), mlx5::kWqebb);
    return text;
}

} // namespace rawqp::mlx5rings
