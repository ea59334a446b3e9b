// SPDX-License-Identifier: BSD-3-Clause
// Data segments for uniform packets, four at a time with AVX2. For sources compiled for CPUs that
// have it.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/tx_uniform.hpp"
#include "drivers/net/rawqp/rings/mlx5/tx_wqe.hpp"

namespace rawqp::mlx5rings {
namespace {

/// The 16-byte pieces at `offset` of two mbufs.
inline __m256i load_pair(rte_mbuf* const* packets, size_t offset) {
    const auto piece = [offset](const rte_mbuf* mbuf) {
        return reinterpret_cast<const __m128i*>(reinterpret_cast<const uint8_t*>(mbuf) + offset);
    };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_load_si128(piece(packets[0]))),
                                   _mm_load_si128(piece(packets[1])), 1);
}

inline __m256i both(__m128i half) { return _mm256_broadcastsi128_si256(half); }

/// The sums of one pass, over pairs of packets.
struct PairSums {
    __m256i lengths;  ///< 32-bit lanes 1 and 5: sum of pkt_len
    __m256i shortest; ///< 16-bit lanes 4 and 12: smallest data_len
    __m256i any_fields, all_fields;
    __m256i any_pool, all_pool;
};

/// Where a data segment's bytes come from, for byte shuffles.
struct Shuffles {
    __m256i offset;  ///< piece kFields -> data_off as low 64-bit number
    __m256i address; ///< low 64-bit number -> big-endian in the high half
    __m256i length;  ///< piece kLength -> data_len as big-endian byte_count
    __m256i lkey;
};

/// A shuffle's order, the same in both lanes: byte `i` of the result is byte order[i]; kNone gives
/// zero.
struct alignas(__m256i) Order {
    uint8_t bytes[2 * 16];
};
constexpr uint8_t kNone = 0xff;
constexpr Order order(const std::array<uint8_t, 16>& lane) {
    Order both{};
    for (size_t i = 0; i < std::size(both.bytes); ++i)
        both.bytes[i] = lane[i % lane.size()];
    return both;
}
constexpr Order kOffset = order({0, 1, kNone, kNone, kNone, kNone, kNone, kNone, //
                                 kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone});
constexpr Order kAddress = order({kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone, //
                                  7, 6, 5, 4, 3, 2, 1, 0});
constexpr Order kLength = order({kNone, kNone, 9, 8, kNone, kNone, kNone, kNone, //
                                 kNone, kNone, kNone, kNone, kNone, kNone, kNone, kNone});

inline __m256i load(const Order& order) { return *reinterpret_cast<const __m256i*>(order.bytes); }
inline Shuffles make_shuffles(uint32_t lkey_be) {
    return {load(kOffset), load(kAddress), load(kLength),
            both(_mm_setr_epi32(0, static_cast<int>(lkey_be), 0, 0))};
}

/// Two data segments.
template <bool Check>
inline __m256i segments(PairSums& sums, const Shuffles& shuffles, rte_mbuf* const* packets) {
    const __m256i fields = load_pair(packets, MbufPieces::kFields);
    const __m256i lengths = load_pair(packets, MbufPieces::kLength);
    const __m256i address = _mm256_add_epi64(load_pair(packets, MbufPieces::kAddress),
                                             _mm256_shuffle_epi8(fields, shuffles.offset));
    sums.lengths = _mm256_add_epi32(sums.lengths, lengths);
    sums.shortest = _mm256_min_epu16(sums.shortest, lengths);
    if constexpr (Check) {
        const __m256i pool = load_pair(packets, MbufPieces::kPool);
        sums.any_fields = _mm256_or_si256(sums.any_fields, fields);
        sums.all_fields = _mm256_and_si256(sums.all_fields, fields);
        sums.any_pool = _mm256_or_si256(sums.any_pool, pool);
        sums.all_pool = _mm256_and_si256(sums.all_pool, pool);
    }
    const __m256i head =
        _mm256_or_si256(_mm256_shuffle_epi8(lengths, shuffles.length), shuffles.lkey);
    return _mm256_or_si256(_mm256_shuffle_epi8(address, shuffles.address), head);
}

inline Uniformity::Piece any_of(__m256i pair) {
    return reinterpret_cast<Uniformity::Piece>(
        _mm_or_si128(_mm256_castsi256_si128(pair), _mm256_extracti128_si256(pair, 1)));
}
inline Uniformity::Piece all_of(__m256i pair) {
    return reinterpret_cast<Uniformity::Piece>(
        _mm_and_si128(_mm256_castsi256_si128(pair), _mm256_extracti128_si256(pair, 1)));
}

/// Writes the two data segments from the `index`-th on.
template <bool Check>
inline void fill_pair(PairSums& sums, const Shuffles& shuffles, const Session& session,
                      rte_mbuf* const* packets, uint32_t index) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(session.data + index),
                        segments<Check>(sums, shuffles, packets + index));
}

/// Sums over `count` packets, a multiple of four, and writes their segments and slots.
///
/// The device has read the WQE's lines, and a store into such a line waits until the device's copy
/// is invalidated. Stores leave the CPU in order, and it requests the lines of the next few only.
/// So the stores that begin a line come first, with nothing between them: the CPU then waits for
/// several lines at once. The stores of second halves and slots then find lines that it owns.
template <bool Check>
inline PairSums fill_fours(const Session& session, rte_mbuf** packets, uint32_t lkey_be,
                           uint32_t count) {
    static_assert(kHeadSegments == 2); // so odd-numbered pairs begin a line
    const Shuffles shuffles = make_shuffles(lkey_be);
    const __m256i none = _mm256_setzero_si256();
    const __m256i all = _mm256_set1_epi32(-1);
    PairSums sums{none, all, none, all, none, all};
    for (uint32_t i = 2; i < count; i += 4)
        fill_pair<Check>(sums, shuffles, session, packets, i);
    for (uint32_t i = 0; i < count; i += 4) {
        fill_pair<Check>(sums, shuffles, session, packets, i);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(session.slots + i),
                            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packets + i)));
    }
    return sums;
}

/// fill_uniform() of four packets or more.
template <bool Check>
inline uint64_t fill_uniform_avx2(Session session, rte_mbuf** packets, uint32_t lkey_be,
                                  uint64_t mask) {
    const uint32_t fours = session.limit & ~3u;
    const PairSums sums = fill_fours<Check>(session, packets, lkey_be, fours);
    session.bytes = static_cast<uint32_t>(_mm256_extract_epi32(sums.lengths, 1)) +
                    static_cast<uint32_t>(_mm256_extract_epi32(sums.lengths, 5));
    if (static_cast<uint16_t>(_mm256_extract_epi16(sums.shortest, 4)) < kMinTxBytes ||
        static_cast<uint16_t>(_mm256_extract_epi16(sums.shortest, 12)) < kMinTxBytes)
        return 0;

    Uniformity uniformity;
    if constexpr (Check) {
        uniformity.any_fields = any_of(sums.any_fields);
        uniformity.all_fields = all_of(sums.all_fields);
        uniformity.any_pool = any_of(sums.any_pool);
        uniformity.all_pool = all_of(sums.all_pool);
    }
    for (uint32_t i = fours; i < session.limit; ++i) {
        rte_mbuf* const packet = packets[i];
        if (packet->data_len < kMinTxBytes) return 0;
        if constexpr (Check) uniformity.add(*packet);
        session.put(i, packet, rte_pktmbuf_mtod(packet, uintptr_t), lkey_be);
    }
    return !Check || uniformity.holds(*packets[0], mask) ? session.bytes : 0;
}

} // namespace
} // namespace rawqp::mlx5rings
