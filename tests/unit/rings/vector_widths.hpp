// SPDX-License-Identifier: BSD-3-Clause
// The vector widths, as EAL allows them, that burst functions of this kind of CPU differ by.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <array>
#include <string>

namespace rings_test {

#if defined(__aarch64__)
inline constexpr unsigned kScalar = RTE_VECT_SIMD_DISABLED, kNeon = RTE_VECT_SIMD_128;
inline constexpr std::array kWidths{kScalar, kNeon};
inline bool has_vectors(unsigned) { return true; }
inline std::string reader_name(unsigned bits) {
    return bits >= kNeon ? "mlx5 NEON" : "mlx5 scalar";
}
#else
inline constexpr unsigned kScalar = RTE_VECT_SIMD_128, kAvx2 = RTE_VECT_SIMD_256,
                          kAvx512 = RTE_VECT_SIMD_512;
inline constexpr std::array kWidths{kScalar, kAvx2, kAvx512};
inline bool has_vectors(unsigned bits) {
    if (bits == kAvx512) return rte_cpu_get_flag_enabled(RTE_CPUFLAG_AVX512BW) > 0;
    return bits != kAvx2 || rte_cpu_get_flag_enabled(RTE_CPUFLAG_AVX2) > 0;
}
inline std::string reader_name(unsigned bits) {
    return bits == kAvx512 ? "mlx5 AVX-512" : bits == kAvx2 ? "mlx5 AVX2" : "mlx5 scalar";
}
#endif

} // namespace rings_test
