// SPDX-License-Identifier: BSD-3-Clause
// What large receive offload the device can do, and how TIRs request it.
//
// Sources: Linux, <linux/mlx5/mlx5_ifc.h> (per_protocol_networking_offload_caps, tirc); DPDK,
// mlx5_prm.h (lro_max_msg_sz_mode).
#pragma once

#include "drivers/net/rawqp/ethdev/devx/commands.hpp"

namespace rawqp::prm {

inline constexpr uint16_t kEthernetCap = capability_now(1); ///< MLX5_CAP_ETHERNET_OFFLOADS

struct QueryEthernetCapOut {
    AnswerHead head;
    be64 reserved;
    // per_protocol_networking_offload_caps
    be32 offloads; ///< kLroCap, kLroSizeFromL2, kTunnelStateless
    be32 others;
    be16 others_2;
    be16 lro_least_segment; ///< bytes of payload: some devices do not merge smaller ones
    be32 others_3[9];
    be32 lro_periods[4]; ///< microseconds that a packet may wait for more, rising
    be32 rest[1008];
};
static_assert(sizeof(QueryEthernetCapOut) == 4112);
static_assert(offsetof(QueryEthernetCapOut, lro_least_segment) == 16 + 0x50 / 8);
static_assert(offsetof(QueryEthernetCapOut, lro_periods) == 16 + 0x180 / 8);
inline constexpr uint32_t kLroCap = 1u << 29;
/// lro_max_msg_sz_mode, two bits: sizes count from the Ethernet header on; else from TCP's.
inline constexpr uint32_t kLroSizeMode = 3u << 25, kLroSizeFromL2 = 1u << 25;
inline constexpr uint32_t kTunnelStateless = 3; ///< of VXLAN, of GRE

// CreateTirIn::lro: microseconds << kLroPeriodShift | kLroIpv4 | kLroIpv6 | size.
inline constexpr unsigned kLroPeriodShift = 12;
inline constexpr uint32_t kLroIpv4 = 1u << 8, kLroIpv6 = 2u << 8; ///< packet_merge_mask
inline constexpr uint32_t kLroUnit = 256;                         ///< unit of sizes, in bytes
inline constexpr uint32_t kLroMaxUnits = 255;

} // namespace rawqp::prm
