// SPDX-License-Identifier: BSD-3-Clause
// Instruction sets that bursts are compiled for, and whether they may be called.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <initializer_list>

namespace rawqp::mlx5rings {

enum class Isa : uint8_t {
    scalar, ///< any CPU
    avx2,
    avx512, ///< F, BW, DQ and VL
    neon
};

#if defined(__x86_64__)
inline bool cpu_has_all(std::initializer_list<rte_cpu_flag_t> flags) {
    return std::all_of(flags.begin(), flags.end(),
                       [](rte_cpu_flag_t flag) { return rte_cpu_get_flag_enabled(flag) > 0; });
}
// Whether the CPU has the instructions and EAL allows vectors that wide. Virtual machines trap the
// instruction that tells, so the answer is kept.
inline bool avx2_allowed(uint16_t active_simd_bits) {
    static const bool there = cpu_has_all({RTE_CPUFLAG_AVX2});
    return active_simd_bits >= 256 && there;
}
inline bool avx512_allowed(uint16_t active_simd_bits) {
    static const bool there = cpu_has_all(
        {RTE_CPUFLAG_AVX512F, RTE_CPUFLAG_AVX512BW, RTE_CPUFLAG_AVX512VL, RTE_CPUFLAG_AVX512DQ});
    return active_simd_bits >= 512 && there;
}
#endif

} // namespace rawqp::mlx5rings
