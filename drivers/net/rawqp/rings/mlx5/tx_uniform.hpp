// SPDX-License-Identifier: BSD-3-Clause
// The hot loop of Tx: data segments for uniform packets, in one branchless pass. Whether they were
// uniform is known at its end; what it wrote counts only then.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/tx_options.hpp"
#include "drivers/net/rawqp/rings/tx_common.hpp"

#include <bit>

namespace rawqp::mlx5rings {

/// Where the data segments and mbufs of one eMPW WQE go.
struct Session {
    mlx5::WqeDataSeg* data;
    rte_mbuf** slots;
    uint32_t limit; ///< packets, at most
    uint64_t bytes = 0;
    uint64_t needs_slow_free = 0; ///< as in TxBatch

    void put(uint32_t index, rte_mbuf* packet, uintptr_t address, uint32_t lkey_be) {
        const uint32_t length = packet->data_len;
        // Byte count and lkey in one store: the compiler would use a vector register for that.
        const uint64_t head = uint64_t{lkey_be} << 32 | net::to_be(length);
        memcpy(&data[index], &head, sizeof head);
        data[index].addr = address;
        keep(index, packet, length);
    }
    void keep(uint32_t index, rte_mbuf* packet, uint32_t length) {
        slots[index] = packet;
        bytes += length;
    }
};

/// Where an mbuf's first cache line holds what matters: as 16-byte pieces.
struct MbufPieces {
    static constexpr size_t kAddress = offsetof(rte_mbuf, buf_addr); ///< low half
    static constexpr size_t kFields =
        offsetof(rte_mbuf, data_off); ///< …, refcnt, nb_segs, ol_flags
    static constexpr size_t kLength = offsetof(rte_mbuf, packet_type); ///< …, pkt_len, data_len
    static constexpr size_t kPool = offsetof(rte_mbuf, pool) - 8;      ///< high half

    static_assert(kAddress == 0 && kFields == 16 && kLength == 32 && kPool == 48);
    static_assert(offsetof(rte_mbuf, refcnt) == kFields + 2);
    static_assert(offsetof(rte_mbuf, nb_segs) == kFields + 4);
    static_assert(offsetof(rte_mbuf, ol_flags) == kFields + 8);
    static_assert(offsetof(rte_mbuf, pkt_len) == kLength + 4);
    static_assert(offsetof(rte_mbuf, data_len) == kLength + 8);
    static_assert(std::endian::native == std::endian::little);
};

/// What the mbufs of a session have in common: the bits set in any and those set in all of them, in
/// the pieces kFields and kPool.
struct Uniformity {
    using Piece [[gnu::vector_size(16), gnu::may_alias]] = uint64_t;
    Piece any_fields{}, any_pool{};
    Piece all_fields = ~Piece{}, all_pool = ~Piece{};

    void add(const rte_mbuf& mbuf) {
        const auto* line = reinterpret_cast<const uint8_t*>(&mbuf);
        const Piece fields = *reinterpret_cast<const Piece*>(line + MbufPieces::kFields);
        const Piece pool = *reinterpret_cast<const Piece*>(line + MbufPieces::kPool);
        any_fields |= fields;
        all_fields &= fields;
        any_pool |= pool;
        all_pool &= pool;
    }
    /// Whether all pass is_plain(), with the same pool as `first` and the same flags within `mask`.
    [[nodiscard]] bool holds(const rte_mbuf& first, uint64_t mask) const {
        constexpr uint64_t kCounts = 0x0000'ffff'ffff'0000, kOneEach = 0x0000'0001'0001'0000;
        const auto same = [](uint64_t any, uint64_t all, uint64_t bits, uint64_t value) {
            return (((any ^ value) | (all ^ value)) & bits) == 0;
        };
        return same(any_fields[0], all_fields[0], kCounts, kOneEach) &&
               same(any_fields[1], all_fields[1], mask | kNotDirect, first.ol_flags & mask) &&
               same(any_pool[1], all_pool[1], UINT64_MAX, reinterpret_cast<uintptr_t>(first.pool));
    }
};

/// Writes data segments for all of the session's packets, whose buffers have the key `lkey_be`.
/// Returns their bytes; 0: one is a runt or, with Check, does not pass Uniformity::holds.
template <bool Check>
inline uint64_t fill_uniform(Session session, rte_mbuf** packets, uint32_t lkey_be, uint64_t mask) {
    Uniformity uniformity;
    for (uint32_t i = 0; i < session.limit; ++i) {
        rte_mbuf* const packet = packets[i];
        if (packet->data_len < kMinTxBytes) [[unlikely]]
            return 0;
        session.put(i, packet, rte_pktmbuf_mtod(packet, uintptr_t), lkey_be);
        if constexpr (Check) uniformity.add(*packet);
    }
    return !Check || uniformity.holds(*packets[0], mask) ? session.bytes : 0;
}

} // namespace rawqp::mlx5rings
