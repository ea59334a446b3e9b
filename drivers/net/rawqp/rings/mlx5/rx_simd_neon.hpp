// SPDX-License-Identifier: BSD-3-Clause
// What rx_vector.hpp needs of NEON. See rx_simd.hpp.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_ring.hpp"

namespace rawqp::mlx5rings {
namespace {

constexpr uint32_t kStep = 4;
/// Loads may be done out of order: that entry n + 1 is there says nothing of a load of entry n.
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
inline Vector load_minis(const mlx5::MiniCqe* minis) {
    const uint8x8_t mini = vld1_u8(reinterpret_cast<const uint8_t*>(minis));
    return vreinterpretq_u32_u8(vcombine_u8(mini, vdup_n_u8(0)));
}

} // namespace
} // namespace rawqp::mlx5rings
