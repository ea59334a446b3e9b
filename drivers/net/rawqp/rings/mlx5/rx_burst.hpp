// SPDX-License-Identifier: BSD-3-Clause
// Receive bursts of the instruction sets. Each set has its own object, compiled from rx_burst.cpp
// and striding_burst.cpp, to be called only on CPUs that have the instructions.
#pragma once

#include "drivers/net/rawqp/rings/mlx5/isa.hpp"
#include "drivers/net/rawqp/rings/ring.hpp"

namespace rawqp::mlx5rings {

/// How fully packets are described, from little to much; each includes those before it, except that
/// the two kinds of time stamp exclude each other. LRO is separate: it does what `offloads` does.
enum class RxVariant : uint8_t {
    plain,     ///< length, packet type, and what an mbuf needs
    offloads,  ///< checksum, VLAN, hash
    crc,       ///< RTE_ETH_RX_OFFLOAD_KEEP_CRC
    ticks,     ///< time stamps …
    real_time, ///< … or those in nanoseconds
    lro        ///< RTE_ETH_RX_OFFLOAD_TCP_LRO: cyclic queues, Isa::scalar only
};

/// The bursts of cyclic and of striding queues. `scattered`: packets may take several mbufs; for
/// Isa::scalar only.
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
