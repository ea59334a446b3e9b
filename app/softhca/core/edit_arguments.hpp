// SPDX-License-Identifier: BSD-3-Clause
// Arguments of header edits: the values that steering entries set, add and insert through a list
// that many share, a pattern. RC QPs write them.
#pragma once

#include "app/softhca/core/object_ranges.hpp"
#include "app/softhca/core/types.hpp"

#include <array>
#include <cstddef>

namespace softhca::core {

struct EditArgument {
    Number pd = 0; ///< of the QPs that may write it
    std::array<std::byte, 64> data{};
};

/// Used with the device locked.
class EditArguments {
  public:
    /// Creates this many, all zero. They are destroyed together, by the number of the first.
    [[nodiscard]] Outcome<Number> create(Number pd, uint32_t count);
    [[nodiscard]] Outcome<void> destroy(Number first);
    /// Null if there is none.
    [[nodiscard]] EditArgument* find(Number number) { return arguments_.find(number); }
    [[nodiscard]] const EditArgument* find(Number number) const { return arguments_.find(number); }
    void clear() { arguments_.clear(); }
    /// For observers.
    [[nodiscard]] const ObjectRanges<EditArgument>& ranges() const { return arguments_; }

  private:
    ObjectRanges<EditArgument> arguments_;
};

} // namespace softhca::core
