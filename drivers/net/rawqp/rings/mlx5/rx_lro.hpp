// SPDX-License-Identifier: BSD-3-Clause
// Packets that the device has assembled from TCP segments (LRO). In memory they have the headers of
// the first segment; the CQE tells what the headers should say for all of them.
//
// Sources: Linux, mlx5e_lro_update_hdr(); DPDK, mlx5_prm.h (struct mlx5_cqe).
#pragma once

#include "common/mlx5/formats.hpp"
#include "drivers/net/rawqp/rings/rx_common.hpp"

namespace rawqp::mlx5rings {

/// Segments of the CQE's packet; below 2: it is as it was received.
[[nodiscard]] constexpr uint32_t lro_segments(const mlx5::Cqe& cqe) {
    return cqe.srqn_uidx >> mlx5::kLroSegmentsShift;
}

/// Completes the headers of such a packet, whose first kLroHeaderBytes lie in `head`, and marks the
/// mbuf: RTE_MBUF_F_RX_LRO and tso_segsz. `head` was described as if it held the whole packet. May
/// be repeated, as when a process was killed here: all that is written comes from the CQE. A packet
/// that no device would assemble stays as it is.
void tell_lro(const mlx5::Cqe& cqe, rte_mbuf& head);

} // namespace rawqp::mlx5rings
