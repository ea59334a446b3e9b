// SPDX-License-Identifier: BSD-3-Clause
// The names of completion errors, for people.
#pragma once

#include "app/softhca/core/completion_error.hpp"

#include <array>
#include <string_view>

namespace softhca::core {

struct CompletionErrorName {
    std::string_view name;
    CompletionError error;
};
inline constexpr std::array kCompletionErrorNames = {
    CompletionErrorName{"local_length", CompletionError::local_length},
    CompletionErrorName{"local_qp_operation", CompletionError::local_qp_operation},
    CompletionErrorName{"local_protection", CompletionError::local_protection},
    CompletionErrorName{"flushed", CompletionError::flushed},
    CompletionErrorName{"mw_bind", CompletionError::mw_bind},
    CompletionErrorName{"bad_response", CompletionError::bad_response},
    CompletionErrorName{"local_access", CompletionError::local_access},
    CompletionErrorName{"remote_invalid_request", CompletionError::remote_invalid_request},
    CompletionErrorName{"remote_access", CompletionError::remote_access},
    CompletionErrorName{"remote_operation", CompletionError::remote_operation},
};

[[nodiscard]] constexpr std::string_view text_of(CompletionError error) {
    for (const auto& [name, known] : kCompletionErrorNames)
        if (known == error) return name;
    return "?";
}

} // namespace softhca::core
