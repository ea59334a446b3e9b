// SPDX-License-Identifier: BSD-3-Clause
// The send bursts for CPUs with AVX2, compiled for them: see meson.build.
#include "drivers/net/rawqp/rings/mlx5/tx_send.hpp"

#include <utility>

namespace rawqp::mlx5rings {
namespace {

/// The table: each field of TxOptions that may differ is a bit of the index.
constexpr size_t kVariants = 16;

constexpr TxOptions tx_options(size_t index) {
    return settled({.multi_segment = (index & 1) != 0,
                    .offloads = (index & 2) != 0,
                    .long_headers = (index & 4) != 0,
                    .multi_packet = true,
                    .avx2 = true,
                    .fast_free = (index & 8) != 0});
}

constexpr auto kBursts = []<size_t... I>(std::index_sequence<I...>) {
    return std::array{kBurst<tx_options(I)>...};
}
(std::make_index_sequence<kVariants>());

} // namespace

Burst<eth_tx_burst_t> tx_avx2_burst(const TxOptions& options) {
    return kBursts[size_t{options.multi_segment} | size_t{options.offloads} << 1 |
                   size_t{options.long_headers} << 2 | size_t{options.fast_free} << 3];
}

} // namespace rawqp::mlx5rings
