// SPDX-License-Identifier: BSD-3-Clause
// The chain from a NIC to packets: one check for each link, ordered so that a link comes after
// those that it depends on. rawqp-doctor walks the whole chain; the driver checks some links when a
// probe has failed.
#pragma once

#include "common/diagnosis/case.hpp"
#include "common/diagnosis/finding.hpp"

#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

namespace diagnosis {

struct Check {
    std::string_view id;
    std::string_view about;
    Verdict (*look)(Case&);
    std::array<std::string_view, 3> needs{}; ///< ids: if one is broken, the check is skipped
};

[[nodiscard]] std::span<const Check> chain();

/// Checks every link. A link is skipped if one that it needs is broken or was skipped. Calls
/// `report` for each finding as it is made. One thread.
std::vector<Finding> examine(Case& subject,
                             const std::function<void(const Finding&)>& report = nullptr);

/// The first of these links, in the order of the chain, that is broken; nothing if none is.
[[nodiscard]] std::optional<Verdict> first_broken(Case& subject,
                                                  std::initializer_list<std::string_view> ids);

} // namespace diagnosis
