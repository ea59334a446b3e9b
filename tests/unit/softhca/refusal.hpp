// SPDX-License-Identifier: BSD-3-Clause
// Why a call was refused.
#pragma once

#include "app/softhca/core/types.hpp"

#include <optional>

namespace testbed {

/// Nothing if it succeeded. error() would then read memory that was never written; in a series of
/// refusals, that may still be the previous one.
template <class T>
std::optional<softhca::core::Status> refusal(const softhca::core::Outcome<T>& outcome) {
    if (outcome) return {};
    return outcome.error();
}

} // namespace testbed
