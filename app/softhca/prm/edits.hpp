// SPDX-License-Identifier: BSD-3-Clause
// The PRM's header modifications (set_add_copy_action_in_auto), as programs and drivers give them.
#pragma once

#include "app/softhca/core/edits.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace softhca::prm {

inline constexpr size_t kEditBytes = 8; ///< of one modification

/// Empty: a kind, a field or a part of one that the device does not have.
[[nodiscard]] std::optional<std::vector<core::HeaderEdit>>
read_header_edits(std::span<const std::byte> prm);

} // namespace softhca::prm
