// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/verbs/ring_text.hpp"

#include "drivers/net/rawqp/rings/ring_text.hpp"
#include "drivers/net/rawqp/rings/verbs/rx.hpp"
#include "drivers/net/rawqp/rings/verbs/tx.hpp"

namespace rawqp::verbsrings {

Figures rx_figures(const RxRing& base) {
    const auto& ring = static_cast<const VerbsRxRing&>(base);
    const uint16_t posted = ring.posted();
    return {{"wqe_consumer", ring.consumer},
            {"wqe_producer", ring.producer},
            {"wqes_posted", posted},
            {"wqes_missing", uint64_t{ring.mask} + 1 - posted}};
}

Figures tx_figures(const TxRing& base) {
    const auto& ring = static_cast<const VerbsTxRing&>(base);
    return {{"segments_held", ring.mbufs.used()}, {"segments_room", ring.mbufs.room()}};
}

std::string rx_descriptor_text(const RxRing& base, uint16_t offset) {
    const auto& ring = static_cast<const VerbsRxRing&>(base);
    const uint32_t ahead = uint32_t{offset} >> ring.log_segments;
    const uint32_t slot = (ring.consumer + ahead) & ring.mask;
    const uint32_t index = (slot << ring.log_segments) + (offset & (ring.segments - 1u));
    const ibv_sge& sge = ring.sges[index];
    if (ahead >= ring.posted())
        return fmt::format("descriptor {}: not posted, request {}\n", offset, slot);
    return fmt::format("descriptor {}: posted, request {}, {}", offset, slot,
                       sge_text(ring.mbufs[index], sge.addr, sge.length, sge.lkey));
}

std::string tx_descriptor_text(const TxRing& base, uint16_t offset) {
    const auto& ring = static_cast<const VerbsTxRing&>(base);
    if (is_free(ring.mbufs, offset)) return fmt::format("descriptor {}: free\n", offset);
    const uint16_t position = position_of(ring.mbufs, offset);
    const rte_mbuf* const mbuf = ring.mbufs.at(position);
    if (is_done(ring.mbufs, position, ring.done)) return done_text(offset, mbuf);
    return fmt::format("descriptor {}: handed to the device, mbuf {}\n", offset, fmt::ptr(mbuf));
}

} // namespace rawqp::verbsrings
