// SPDX-License-Identifier: BSD-3-Clause
// What an error CQE says, in verbs' terms.
#pragma once

#include "common/mlx5/formats.hpp"

#include <infiniband/verbs.h>

namespace rawqp::mlx5rings {

[[nodiscard]] constexpr ibv_wc_status status_of(const mlx5::ErrorCqe& cqe) {
    switch (static_cast<mlx5::CqeSyndrome>(cqe.syndrome)) {
    case mlx5::CqeSyndrome::local_length: return IBV_WC_LOC_LEN_ERR;
    case mlx5::CqeSyndrome::local_qp_operation: return IBV_WC_LOC_QP_OP_ERR;
    case mlx5::CqeSyndrome::local_protection: return IBV_WC_LOC_PROT_ERR;
    case mlx5::CqeSyndrome::flushed: return IBV_WC_WR_FLUSH_ERR;
    case mlx5::CqeSyndrome::bad_response: return IBV_WC_BAD_RESP_ERR;
    case mlx5::CqeSyndrome::local_access: return IBV_WC_LOC_ACCESS_ERR;
    default: return IBV_WC_GENERAL_ERR; // for connections only, or unknown
    }
}

} // namespace rawqp::mlx5rings
