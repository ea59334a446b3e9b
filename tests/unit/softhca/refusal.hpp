// SPDX-License-Identifier: BSD-3-Clause
// What a call was refused for.
#pragma once

#include "app/softhca/core/types.hpp"

#include <optional>

namespace testbed {

/// Nothing: it succeeded. error() would then read memory that nobody has written, which in a row of
/// refusals is still the one before.
template <class T>
std::optional<softhca::core::Status> refusal(const softhca::core::Outcome<T>& outcome) {
    if (outcome) return {};
    return outcome.error();
}

} // namespace testbed
