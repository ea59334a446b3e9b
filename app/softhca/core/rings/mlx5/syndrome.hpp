// SPDX-License-Identifier: BSD-3-Clause
// The numbers for completion errors in error CQEs.
#pragma once

#include "app/softhca/core/completion_error.hpp"
#include "common/mlx5/formats.hpp"

namespace softhca::core::mlx5_rings {

[[nodiscard]] constexpr mlx5::CqeSyndrome syndrome_of(CompletionError error) {
    using mlx5::CqeSyndrome;
    switch (error) {
    case CompletionError::local_length: return CqeSyndrome::local_length;
    case CompletionError::local_qp_operation: return CqeSyndrome::local_qp_operation;
    case CompletionError::local_protection: return CqeSyndrome::local_protection;
    case CompletionError::flushed: return CqeSyndrome::flushed;
    case CompletionError::mw_bind: return CqeSyndrome::mw_bind;
    case CompletionError::bad_response: return CqeSyndrome::bad_response;
    case CompletionError::local_access: return CqeSyndrome::local_access;
    case CompletionError::remote_invalid_request: return CqeSyndrome::remote_invalid_request;
    case CompletionError::remote_access: return CqeSyndrome::remote_access;
    case CompletionError::remote_operation: return CqeSyndrome::remote_operation;
    }
    return CqeSyndrome::local_qp_operation;
}

} // namespace softhca::core::mlx5_rings
