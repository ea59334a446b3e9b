// SPDX-License-Identifier: BSD-3-Clause
// The receive burst with NEON: two table lookups over all of a CQE give the fields of an mbuf and
// the words that flags and packet type come from.
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_vector.hpp"

namespace rawqp::mlx5rings {
namespace {

/// Where the words that Constants::fields takes bytes from lie in a CQE: byte count, info, hash.
constexpr Lane kRowInCqe = {44, 45, 46, 47, 28, 29, 30, 31, 12, 13, 14, 15};
/// CQE -> an mbuf's fields, the packet type left out. What is none stays out of range.
inline uint8x16_t fields_from_cqe(const Constants& constants) {
    const uint8x16_t fields = vreinterpretq_u8_u32(constants.fields);
    return vorrq_u8(vqtbl1q_u8(vld1q_u8(kRowInCqe.data()), fields),
                    vandq_u8(fields, vdupq_n_u8(0x80)));
}
/// CQE -> info, hash type, tag, op_own; see Words.
constexpr Lane kCqeToWords = {28, 29, 30, 31, 16, 17, 18, 19, 56, 57, 58, 59, 60, 61, 62, 63};

/// Words 0, or 1 …, of four rows.
struct Columns {
    explicit Columns(const Vector (&rows)[4]) {
        const uint32x4x2_t low = vtrnq_u32(rows[0], rows[1]);
        const uint32x4x2_t high = vtrnq_u32(rows[2], rows[3]);
        for (int i = 0; i < 2; ++i) {
            word[i] = vcombine_u32(vget_low_u32(low.val[i]), vget_low_u32(high.val[i]));
            word[i + 2] = vcombine_u32(vget_high_u32(low.val[i]), vget_high_u32(high.val[i]));
        }
    }
    Vector word[4];
};

struct Neon {
    static constexpr std::string_view kName = "mlx5 NEON";
    static constexpr std::string_view kStridingName = "mlx5 striding NEON";

    template <RxOptions O> struct Step {
        Step(const Constants& constants, const Cqe* cqes) {
            const uint8x16_t to_fields = fields_from_cqe(constants);
            const uint8x16_t to_words = vld1q_u8(kCqeToWords.data());
            Vector rows[4];
            for (int i = 0; i < 4; ++i) {
                const uint8x16x4_t cqe = vld1q_u8_x4(reinterpret_cast<const uint8_t*>(&cqes[i]));
                rows[i] = vreinterpretq_u32_u8(vqtbl4q_u8(cqe, to_words));
                second[i] = vreinterpretq_u32_u8(vqtbl4q_u8(cqe, to_fields));
            }
            const Columns columns(rows);
            described = {.info = columns.word[0],
                         .hash_type = columns.word[1],
                         .tag = columns.word[2],
                         .op_own = columns.word[3]};
            const Indices index(described.info);
            tags = host_tags(described.tag);
            flags = all_flags<O>(constants, index, described, tags);
            const Vector types = packet_types(index);
            describe<0>(constants, types);
            describe<1>(constants, types);
            describe<2>(constants, types);
            describe<3>(constants, types);
        }
        void store_all(rte_mbuf** mbufs) const {
            for (uint32_t i = 0; i < kStep; ++i) {
                store_lane<0>(first_half(mbufs[i]), first[i]);
                store_lane<0>(second_half(mbufs[i]), second[i]);
            }
        }
        [[nodiscard]] Sums lengths() const {
            const auto length = [this](int i) { return sums(second[i]) >> 32; };
            return (length(0) + length(1)) + (length(2) + length(3));
        }

        Words described;
        Vector tags;
        Vector flags;
        Vector first[4];
        Vector second[4];

      private:
        template <int I> void describe(const Constants& constants, Vector types) {
            const Vector low_flags = vcopyq_laneq_u32(constants.rearm, 2, flags, I);
            first[I] = vcopyq_laneq_u32(low_flags, 3, constants.high_flags, 0);
            second[I] = without_crc<O>(vcopyq_laneq_u32(second[I], 0, types, I), constants.crc);
        }
    };
};

} // namespace

Burst<eth_rx_burst_t> rx_burst_neon(RxVariant variant, RxFormat format) {
    return burst_of<Neon>(variant, format);
}

} // namespace rawqp::mlx5rings
