// SPDX-License-Identifier: BSD-3-Clause
// Replaces rx_vector.hpp where there are no vectors: all packets are taken one by one.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/rx_burst.hpp"
#include "drivers/net/rawqp/rings/mlx5/rx_describe.hpp"

#include <string_view>

namespace rawqp::mlx5rings {
namespace {

constexpr Isa kIsa = Isa::scalar;
constexpr std::string_view kReaderName = "mlx5 scalar";
constexpr std::string_view kStridingReaderName = "mlx5 striding";

template <RxOptions>
uint32_t take_steps(MlxRxRing&, const Cqe*, uint8_t, rte_mbuf**, uint32_t, uint64_t&) {
    return 0;
}

/// As in striding_vector.hpp.
template <RxOptions, class Ring> uint32_t take_strides(Ring&, rte_mbuf**, uint32_t, uint64_t&) {
    return 0;
}

template <RxOptions>
bool decompress_array(MlxRxRing&, const mlx5::MiniCqe*, rte_mbuf**, rte_mbuf**, uint64_t&) {
    return false;
}

} // namespace
} // namespace rawqp::mlx5rings
