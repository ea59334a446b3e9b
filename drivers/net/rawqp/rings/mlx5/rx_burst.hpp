// SPDX-License-Identifier: BSD-3-Clause
// Receive bursts of the instruction sets. Those of each are an object of its own, compiled from
// rx_burst.cpp and striding_burst.cpp, and may be called on CPUs only that have the instructions.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/isa.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp::mlx5rings {

/// What packets are described by, from little to much; each does what those before it do, but the
/// two kinds of time stamp. LRO is apart: it does what `offloads` does.
enum class RxVariant : uint8_t {
    plain,     ///< length, packet type, and what an mbuf needs
    offloads,  ///< checksum, VLAN, hash
    crc,       ///< RTE_ETH_RX_OFFLOAD_KEEP_CRC
    ticks,     ///< time stamps …
    real_time, ///< … or those in nanoseconds
    lro        ///< RTE_ETH_RX_OFFLOAD_TCP_LRO: cyclic queues, Isa::scalar only
};

/// The bursts of cyclic and of striding queues. `scattered`: packets may take several mbufs, which
/// is for Isa::scalar only.
template <Isa> Burst<eth_rx_burst_t> rx_burst_for(RxVariant variant, bool scattered);
template <Isa> Burst<eth_rx_burst_t> striding_burst_for(RxVariant variant, bool scattered);

template <> Burst<eth_rx_burst_t> rx_burst_for<Isa::scalar>(RxVariant, bool);
template <> Burst<eth_rx_burst_t> rx_burst_for<Isa::avx2>(RxVariant, bool);
template <> Burst<eth_rx_burst_t> rx_burst_for<Isa::avx512>(RxVariant, bool);
template <> Burst<eth_rx_burst_t> rx_burst_for<Isa::neon>(RxVariant, bool);
template <> Burst<eth_rx_burst_t> striding_burst_for<Isa::scalar>(RxVariant, bool);
template <> Burst<eth_rx_burst_t> striding_burst_for<Isa::avx2>(RxVariant, bool);
template <> Burst<eth_rx_burst_t> striding_burst_for<Isa::avx512>(RxVariant, bool);
template <> Burst<eth_rx_burst_t> striding_burst_for<Isa::neon>(RxVariant, bool);

} // namespace rawqp::mlx5rings
