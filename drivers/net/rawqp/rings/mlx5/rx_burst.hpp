// SPDX-License-Identifier: BSD-3-Clause
// Receive bursts of the instruction sets, for rings of one segment per packet. Each is in an object
// library of its own and may be called on CPUs that have the instructions only.
#pragma once

#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp::mlx5rings {

/// What packets are described by, from little to much; each does what those before it do, but the
/// two kinds of time stamp.
enum class RxVariant : uint8_t {
    plain,    ///< length, packet type, and what an mbuf needs
    offloads, ///< checksum, VLAN, hash
    crc,      ///< RTE_ETH_RX_OFFLOAD_KEEP_CRC
    ticks,    ///< time stamps …
    real_time ///< … or those in nanoseconds
};
[[nodiscard]] RxVariant rx_variant(const RxSpec& spec);

enum class RxFormat : uint8_t { cyclic, striding };

/// The burst of the widest vectors that the CPU has and EAL allows; no function when there are
/// none.
[[nodiscard]] Burst<eth_rx_burst_t> rx_vector_burst(const RxSpec& spec, RxFormat format);

Burst<eth_rx_burst_t> rx_burst_avx2(RxVariant variant, RxFormat format);
Burst<eth_rx_burst_t> rx_burst_avx512(RxVariant variant, RxFormat format); ///< F, BW, DQ and VL
Burst<eth_rx_burst_t> rx_burst_neon(RxVariant variant, RxFormat format);

} // namespace rawqp::mlx5rings
