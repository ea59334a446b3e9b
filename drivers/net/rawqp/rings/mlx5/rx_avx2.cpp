// SPDX-License-Identifier: BSD-3-Clause
// The receive burst with AVX2. Packets i and i + 4 of a step share a register, one in each 128-bit
// lane, so that shuffles within lanes do for both.
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_vector.hpp"

namespace rawqp::mlx5rings {
namespace {

inline __m256i lanes(const uint8_t* low, const uint8_t* high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(low)), load16(high), 1);
}

/// Word `Word` of packets 0 to 7.
template <int Word> inline __m256i column(const __m256i (&rows)[4]) {
    constexpr bool kHigh = Word >= 2;
    const auto unpack = [](__m256i a, __m256i b) {
        return kHigh ? _mm256_unpackhi_epi32(a, b) : _mm256_unpacklo_epi32(a, b);
    };
    const __m256i a = unpack(rows[0], rows[1]);
    const __m256i b = unpack(rows[2], rows[3]);
    return Word % 2 == 0 ? _mm256_unpacklo_epi64(a, b) : _mm256_unpackhi_epi64(a, b);
}

struct Avx2 {
    static constexpr std::string_view kName = "mlx5 AVX2";
    static constexpr std::string_view kStridingName = "mlx5 striding AVX2";

    template <RxOptions O> struct Step {
        Step(const Constants& constants, const Cqe* cqes) {
            __m256i rows[4]; // byte count, info, hash, hash type
            __m256i ends[4]; // the last 16 bytes
            for (int i = 0; i < 4; ++i) {
                const auto* const low = reinterpret_cast<const uint8_t*>(&cqes[i]);
                const auto* const high = reinterpret_cast<const uint8_t*>(&cqes[i + 4]);
                // Each load puts its field into the word where it is wanted.
                const __m256i bytes = lanes(low + 44, high + 44);
                const __m256i info = lanes(low + 24, high + 24);
                const __m256i hash = lanes(low + 4, high + 4);
                rows[i] = _mm256_blend_epi32(_mm256_blend_epi32(bytes, info, 0x22), hash, 0xcc);
                ends[i] = lanes(low + 48, high + 48);
            }
            described = {.info = words(column<1>(rows)),
                         .hash_type = words(column<3>(rows)),
                         .tag = words(column<2>(ends)),
                         .op_own = words(column<3>(ends))};
            const Indices index(described.info);
            tags = host_tags(described.tag);
            flags = all_flags<O>(constants, index, described, tags);
            const __m256i rearm = raw(constants.rearm), high_flags = raw(constants.high_flags);
            const __m256i flags01 = _mm256_unpacklo_epi32(raw(flags), high_flags);
            const __m256i flags23 = _mm256_unpackhi_epi32(raw(flags), high_flags);
            first[0] = _mm256_unpacklo_epi64(rearm, flags01);
            first[1] = _mm256_blend_epi32(rearm, flags01, 0xcc);
            first[2] = _mm256_unpacklo_epi64(rearm, flags23);
            first[3] = _mm256_blend_epi32(rearm, flags23, 0xcc);

            const __m256i types = raw(packet_types(index));
            const __m256i order = raw(constants.fields);
            const __m256i type[4] = {types, _mm256_srli_si256(types, 4),
                                     _mm256_srli_si256(types, 8), _mm256_srli_si256(types, 12)};
            for (int i = 0; i < 4; ++i)
                second[i] = raw(without_crc<O>(
                    words(_mm256_blend_epi32(_mm256_shuffle_epi8(rows[i], order), type[i], 0x11)),
                    constants.crc));
        }
        void store_all(rte_mbuf** mbufs) const {
            for (int i = 0; i < 4; ++i) {
                store16(first_half(mbufs[i]), _mm256_castsi256_si128(first[i]));
                store16(second_half(mbufs[i]), _mm256_castsi256_si128(second[i]));
                store16(first_half(mbufs[i + 4]), _mm256_extracti128_si256(first[i], 1));
                store16(second_half(mbufs[i + 4]), _mm256_extracti128_si256(second[i], 1));
            }
        }
        [[nodiscard]] Sums lengths() const {
            const auto length = [this](int i) { return sums(second[i]) >> 32; };
            return (length(0) + length(1)) + (length(2) + length(3));
        }

        Words described;
        Vector tags;
        Vector flags;
        __m256i first[4];
        __m256i second[4];
    };
};

} // namespace

Burst<eth_rx_burst_t> rx_burst_avx2(RxVariant variant, RxFormat format) {
    return burst_of<Avx2>(variant, format);
}

} // namespace rawqp::mlx5rings
