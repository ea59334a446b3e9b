// SPDX-License-Identifier: BSD-3-Clause
// The receive bursts of cyclic queues, of one instruction set: compiled for each, see meson.build.
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"

#include "drivers/net/rawqp/rings/mlx5/rx_receive.hpp"

namespace rawqp::mlx5rings {
namespace {

struct Cyclic {
    static constexpr std::string_view kName = kReaderName;
    template <RxOptions O> static constexpr eth_rx_burst_t kReceive = receive_burst<O>;
};

} // namespace

template <> Burst<eth_rx_burst_t> rx_burst_for<kIsa>(RxVariant variant, bool scattered) {
    const auto index = static_cast<size_t>(variant);
    if constexpr (kIsa == Isa::scalar) {
        if (variant == RxVariant::lro) return kLroBursts<Cyclic>[scattered ? 1 : 0];
        if (scattered) return kBursts<Cyclic, true>[index];
    }
    return kBursts<Cyclic, false>[index];
}

} // namespace rawqp::mlx5rings
