// SPDX-License-Identifier: BSD-3-Clause
// Why a request failed, in terms that every family's completions can express.
#pragma once

#include <cstdint>

namespace softhca::core {

/// The causes that InfiniBand defines. A family's rings use their own numbers for them.
enum class CompletionError : uint8_t {
    local_length,
    local_qp_operation,
    local_protection,
    flushed, ///< the queue was in error before this request was executed
    mw_bind,
    bad_response,
    local_access,
    remote_invalid_request,
    remote_access,
    remote_operation,
};

} // namespace softhca::core
