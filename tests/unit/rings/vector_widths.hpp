// SPDX-License-Identifier: BSD-3-Clause
// The vector widths, as EAL's limits, for which this kind of CPU has different burst functions.
#pragma once

#include "drivers/net/rawqp/dpdk.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace rings_test {

#if defined(__aarch64__)
inline constexpr unsigned kScalar = RTE_VECT_SIMD_DISABLED, kNeon = RTE_VECT_SIMD_128;
inline constexpr std::array kWidths{kScalar, kNeon};
inline constexpr std::array kVectorWidths{kNeon};
inline constexpr std::array kTxWidths{kScalar};
inline std::string missing_vectors(unsigned) { return {}; }
inline std::string width_name(unsigned bits) { return bits >= kNeon ? "neon" : "scalar"; }
inline std::string reader_name(unsigned bits) {
    return bits >= kNeon ? "mlx5 NEON" : "mlx5 scalar";
}
#else
inline constexpr unsigned kScalar = RTE_VECT_SIMD_128, kAvx2 = RTE_VECT_SIMD_256,
                          kAvx512 = RTE_VECT_SIMD_512;
inline constexpr std::array kWidths{kScalar, kAvx2, kAvx512};
inline constexpr std::array kVectorWidths{kAvx2, kAvx512};
inline constexpr std::array kTxWidths{kScalar, kAvx2};
/// The CPU features that readers of this width need and that are missing, in words; empty: none.
inline std::string missing_vectors(unsigned bits) {
    const auto lacks = [](std::initializer_list<rte_cpu_flag_t> flags) {
        return std::any_of(flags.begin(), flags.end(),
                           [](rte_cpu_flag_t flag) { return rte_cpu_get_flag_enabled(flag) <= 0; });
    };
    if (bits == kAvx512 && lacks({RTE_CPUFLAG_AVX512F, RTE_CPUFLAG_AVX512BW, RTE_CPUFLAG_AVX512VL,
                                  RTE_CPUFLAG_AVX512DQ}))
        return "this CPU has no AVX-512";
    if (bits == kAvx2 && lacks({RTE_CPUFLAG_AVX2})) return "this CPU has no AVX2";
    return {};
}
inline std::string width_name(unsigned bits) {
    return bits == kAvx512 ? "avx512" : bits == kAvx2 ? "avx2" : "scalar";
}
inline std::string reader_name(unsigned bits) {
    return bits == kAvx512 ? "mlx5 AVX-512" : bits == kAvx2 ? "mlx5 AVX2" : "mlx5 scalar";
}
#endif

inline bool has_vectors(unsigned bits) { return missing_vectors(bits).empty(); }

/// For instantiations by width, or by something else and then the width.
inline constexpr auto kByWidth = [](const auto& info) { return width_name(info.param); };
inline constexpr auto kByNameAndWidth = [](const auto& info) {
    const auto& [what, bits] = info.param;
    return std::string(what.name) + "_" + width_name(bits);
};

} // namespace rings_test

/// Skips the test (from its body or SetUp) where its reader cannot run; see not_tested.cpp.
#define SKIP_WITHOUT_VECTORS(bits)                                                                 \
    if (const std::string missing = rings_test::missing_vectors(bits); !missing.empty())           \
    GTEST_SKIP() << missing
