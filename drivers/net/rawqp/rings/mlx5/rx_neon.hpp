// SPDX-License-Identifier: BSD-3-Clause
// Steps of CQEs with NEON: see rx_vector.hpp. Two table lookups over all of a CQE give the fields
// of an mbuf and the words that flags and packet type come from.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_describe.hpp"

#include <bit>

namespace rawqp::mlx5rings {
namespace {

constexpr uint32_t kStep = 4;
/// Loads may be done out of order: that entry n + 1 is there says nothing about a load of entry n.
constexpr bool kSeenInOrder = false;

using Vector = uint32x4_t;
using Sums = uint64x2_t;

inline void store_words(uint32_t* to, Vector vector) { vst1q_u32(to, vector); }
inline Vector in_all_lanes(const void* bytes) {
    return vreinterpretq_u32_u8(vld1q_u8(static_cast<const uint8_t*>(bytes)));
}
inline Vector shuffle(Vector bytes, Vector order) {
    return vreinterpretq_u32_u8(
        vqtbl1q_u8(vreinterpretq_u8_u32(bytes), vreinterpretq_u8_u32(order)));
}
inline Vector minus16(Vector a, Vector b) {
    return vreinterpretq_u32_u16(vsubq_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b)));
}

template <uint32_t> inline void store_lane(void* to, Vector vector) {
    vst1q_u8(static_cast<uint8_t*>(to), vreinterpretq_u8_u32(vector));
}
inline uint32_t leading_ones(Vector mask) {
    const uint64_t halves = vget_lane_u64(vreinterpret_u64_u16(vmovn_u32(mask)), 0);
    return static_cast<uint32_t>(std::countr_one(halves)) / 16;
}
inline void copy_pointers(rte_mbuf** to, rte_mbuf* const* from) {
    memcpy(to, from, kStep * sizeof *to);
}
inline void copy_64(uint8_t* to, const uint8_t* from) { memcpy(to, from, 64); }
inline Vector load_minis(const mlx5::MiniCqe* minis) {
    const uint8x8_t mini = vld1_u8(reinterpret_cast<const uint8_t*>(minis));
    return vreinterpretq_u32_u8(vcombine_u8(mini, vdup_n_u8(0)));
}

/// Where the words that Constants::fields takes bytes from lie in a CQE: byte count, info, hash.
constexpr Lane kRowInCqe = {44, 45, 46, 47, 28, 29, 30, 31, 12, 13, 14, 15};
/// CQE -> an mbuf's fields, the packet type left out. kNone stays out of range.
inline uint8x16_t fields_from_cqe(Vector order) {
    const uint8x16_t fields = vreinterpretq_u8_u32(order);
    return vorrq_u8(vqtbl1q_u8(vld1q_u8(kRowInCqe.data()), fields),
                    vandq_u8(fields, vdupq_n_u8(0x80)));
}
/// CQE -> info, hash type, tag, op_own.
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

struct NeonStep {
    template <class Constants> NeonStep(const Constants& constants, const Cqe* cqes) {
        const uint8x16_t to_fields = fields_from_cqe(constants.fields);
        const uint8x16_t to_words = vld1q_u8(kCqeToWords.data());
        Vector rows[4];
        for (int i = 0; i < 4; ++i) {
            const uint8x16x4_t cqe = vld1q_u8_x4(reinterpret_cast<const uint8_t*>(&cqes[i]));
            rows[i] = vreinterpretq_u32_u8(vqtbl4q_u8(cqe, to_words));
            second_[i] = vreinterpretq_u32_u8(vqtbl4q_u8(cqe, to_fields));
        }
        const Columns columns(rows);
        info = columns.word[0];
        hash_type = columns.word[1];
        tag = columns.word[2];
        op_own = columns.word[3];
    }

    template <class Constants> void put_flags(const Constants& constants, Vector flags) {
        put_flags_of<0>(constants, flags);
        put_flags_of<1>(constants, flags);
        put_flags_of<2>(constants, flags);
        put_flags_of<3>(constants, flags);
    }
    template <bool Crc, class Constants>
    void put_fields(const Constants& constants, Vector packet_types) {
        second_[0] = vcopyq_laneq_u32(second_[0], 0, packet_types, 0);
        second_[1] = vcopyq_laneq_u32(second_[1], 0, packet_types, 1);
        second_[2] = vcopyq_laneq_u32(second_[2], 0, packet_types, 2);
        second_[3] = vcopyq_laneq_u32(second_[3], 0, packet_types, 3);
        if constexpr (Crc)
            for (Vector& fields : second_)
                fields = minus16(fields, constants.crc);
    }
    void store(rte_mbuf** mbufs) const {
        for (uint32_t i = 0; i < kStep; ++i) {
            store_lane<0>(first_half(mbufs[i]), first_[i]);
            store_lane<0>(second_half(mbufs[i]), second_[i]);
        }
    }
    [[nodiscard]] Sums lengths() const {
        const auto length = [this](int i) { return vreinterpretq_u64_u32(second_[i]) >> 32; };
        return (length(0) + length(1)) + (length(2) + length(3));
    }

    Vector info, hash_type, tag, op_own;

  private:
    template <int I, class Constants> void put_flags_of(const Constants& constants, Vector flags) {
        const Vector low_flags = vcopyq_laneq_u32(constants.rearm, 2, flags, I);
        first_[I] = vcopyq_laneq_u32(low_flags, 3, constants.high_flags, 0);
    }

    Vector first_[4];
    Vector second_[4];
};

} // namespace
} // namespace rawqp::mlx5rings
