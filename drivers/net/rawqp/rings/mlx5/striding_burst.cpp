// SPDX-License-Identifier: BSD-3-Clause
// The receive burst of striding queues for any CPU, and the choice of one.
#include "drivers/net/rawqp/rings/mlx5/striding_receive.hpp"

namespace rawqp::mlx5rings {
namespace {

struct Scalar {
    static constexpr std::string_view kName = "mlx5 striding";

    template <RxOptions O>
    static uint32_t take_strides(StridingRing&, rte_mbuf**, uint32_t, uint64_t&) {
        return 0;
    }
};

} // namespace

uint32_t striding_skip(StridingRing& ring) {
    constexpr RxOptions kPlain;
    uint32_t packets = 0;
    for (PeekedCqe peeked{}; peek<kPlain>(ring, peeked) == PeekState::completion;) {
        packets += !peeked.filler();
        step_over(ring, peeked);
    }
    return packets;
}

Burst<eth_rx_burst_t> striding_burst(const RxSpec& spec) {
    const auto variant = static_cast<size_t>(rx_variant(spec));
    if (spec.segments > 1) return kStridingVariants<Scalar, true>[variant];
    const Burst<eth_rx_burst_t> vector = rx_vector_burst(spec, RxFormat::striding);
    return vector.function != nullptr ? vector : kStridingVariants<Scalar, false>[variant];
}

} // namespace rawqp::mlx5rings
