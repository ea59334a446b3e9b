// SPDX-License-Identifier: BSD-3-Clause
// Chooses a receive queue's burst function when its port is about to start.
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"
#include "drivers/net/rawqp/rings/mlx5/striding_ring.hpp"

namespace rawqp::mlx5rings {
namespace {

constexpr uint64_t kDescribedOffloads =
    RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_VLAN_STRIP | RTE_ETH_RX_OFFLOAD_RSS_HASH;

bool has_lro(const RxSpec& spec) { return (spec.offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO) != 0; }

RxVariant choose_variant(const RxSpec& spec) {
    if (has_lro(spec)) return RxVariant::lro;
    if ((spec.offloads & RTE_ETH_RX_OFFLOAD_TIMESTAMP) != 0)
        return spec.real_time ? RxVariant::real_time : RxVariant::ticks;
    if ((spec.offloads & RTE_ETH_RX_OFFLOAD_KEEP_CRC) != 0) return RxVariant::crc;
    return (spec.offloads & kDescribedOffloads) != 0 ? RxVariant::offloads : RxVariant::plain;
}

struct Bursts {
    Burst<eth_rx_burst_t> (*cyclic)(RxVariant variant, bool scattered);
    Burst<eth_rx_burst_t> (*striding)(RxVariant variant, bool scattered);
};
template <Isa isa> constexpr Bursts kBurstsFor{rx_burst_for<isa>, striding_burst_for<isa>};

/// The bursts with the widest vectors that the CPU has and EAL allows.
const Bursts& choose_bursts(const RxSpec& spec) {
    if (spec.segments > 1 || has_lro(spec)) return kBurstsFor<Isa::scalar>;
#if defined(__x86_64__)
    if (avx512_allowed(spec.active_simd_bits)) return kBurstsFor<Isa::avx512>;
    if (avx2_allowed(spec.active_simd_bits)) return kBurstsFor<Isa::avx2>;
#elif defined(__aarch64__) // every such CPU has it
    if (spec.active_simd_bits >= 128) return kBurstsFor<Isa::neon>;
#endif
    return kBurstsFor<Isa::scalar>;
}

} // namespace

Burst<eth_rx_burst_t> rx_burst(const RxSpec& spec) {
    return choose_bursts(spec).cyclic(choose_variant(spec), spec.segments > 1);
}

Burst<eth_rx_burst_t> striding_burst(const RxSpec& spec) {
    return choose_bursts(spec).striding(choose_variant(spec), spec.segments > 1);
}

} // namespace rawqp::mlx5rings
