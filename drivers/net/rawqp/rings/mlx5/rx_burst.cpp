// SPDX-License-Identifier: BSD-3-Clause
// The receive burst for any CPU, and the choice of one.
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"

#include "drivers/net/rawqp/rings/mlx5/rx_receive.hpp"

namespace rawqp::mlx5rings {
namespace {

struct Scalar {
    static constexpr std::string_view kName = "mlx5 scalar";

    template <RxOptions O>
    static uint32_t take(MlxRxRing& ring, rte_mbuf** packets, uint32_t run, uint64_t& bytes) {
        return take_single<O>(ring, packets, run, bytes);
    }
    template <RxOptions O>
    static void decompress(MlxRxRing& ring, const mlx5::MiniCqe* minis, rte_mbuf** mbufs,
                           rte_mbuf** packets, uint32_t count, uint64_t& bytes) {
        decompress_single<O>(ring, minis, mbufs, packets, count, bytes);
    }
    static bool refill(MlxRxRing&) { return false; }
};

constexpr uint64_t kDescribedOffloads =
    RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_RSS_HASH;

#if defined(__x86_64__)
bool has_all(std::initializer_list<rte_cpu_flag_t> flags) {
    return std::all_of(flags.begin(), flags.end(),
                       [](rte_cpu_flag_t flag) { return rte_cpu_get_flag_enabled(flag) > 0; });
}
// Virtual machines trap the instruction that tells: it is asked once.
bool has_avx2(unsigned bits) {
    static const bool there = has_all({RTE_CPUFLAG_AVX2});
    return bits >= 256 && there;
}
bool has_avx512(unsigned bits) {
    static const bool there = has_all(
        {RTE_CPUFLAG_AVX512F, RTE_CPUFLAG_AVX512BW, RTE_CPUFLAG_AVX512VL, RTE_CPUFLAG_AVX512DQ});
    return bits >= 512 && there;
}
#endif

} // namespace

RxVariant rx_variant(const RxSpec& spec) {
    if ((spec.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0)
        return spec.real_time ? RxVariant::real_time : RxVariant::ticks;
    if ((spec.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0) return RxVariant::crc;
    return (spec.offloads & kDescribedOffloads) != 0 ? RxVariant::offloads : RxVariant::plain;
}

Burst<eth_rx_burst_t> rx_vector_burst(const RxSpec& spec, RxFormat format) {
    const RxVariant variant = rx_variant(spec);
#if defined(__x86_64__)
    if (has_avx512(spec.active_simd_bits)) return rx_burst_avx512(variant, format);
    if (has_avx2(spec.active_simd_bits)) return rx_burst_avx2(variant, format);
#elif defined(__aarch64__) // every such CPU has it
    if (spec.active_simd_bits >= 128) return rx_burst_neon(variant, format);
#endif
    return {};
}

Burst<eth_rx_burst_t> rx_burst(const RxSpec& spec) {
    const auto variant = static_cast<size_t>(rx_variant(spec));
    if (spec.segments > 1) return kVariants<Scalar, true>[variant];
    const Burst<eth_rx_burst_t> vector = rx_vector_burst(spec, RxFormat::cyclic);
    return vector.function != nullptr ? vector : kVariants<Scalar, false>[variant];
}

} // namespace rawqp::mlx5rings
