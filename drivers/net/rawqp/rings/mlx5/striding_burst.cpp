// SPDX-License-Identifier: BSD-3-Clause
// The receive bursts of striding queues, of one instruction set: compiled for each, see
// meson.build.
#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"

#include "drivers/net/rawqp/rings/mlx5/striding_receive.hpp"

namespace rawqp::mlx5rings {
namespace {

struct Striding {
    static constexpr std::string_view kName = kStridingReaderName;
    template <RxOptions O> static constexpr eth_rx_burst_t kReceive = striding_receive<O>;
};

} // namespace

template <> Burst<eth_rx_burst_t> striding_burst_for<kIsa>(RxVariant variant, bool scattered) {
    const auto index = static_cast<size_t>(variant);
    if constexpr (kIsa == Isa::scalar)
        if (scattered) return kBursts<Striding, true>[index];
    return kBursts<Striding, false>[index];
}

} // namespace rawqp::mlx5rings
