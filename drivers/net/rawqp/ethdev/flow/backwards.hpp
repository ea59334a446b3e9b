// SPDX-License-Identifier: BSD-3-Clause
// Ranges from their end to their beginning: std::views::reverse, which clang 14 cannot compile from
// the library of gcc 12.
#pragma once

#include <iterator>

namespace rawqp {

/// A range, or a reference to one, which it keeps no longer than that lives.
template <class Range> class Backwards {
  public:
    explicit Backwards(Range&& range) : range_(static_cast<Range&&>(range)) {}
    [[nodiscard]] auto begin() { return std::rbegin(range_); }
    [[nodiscard]] auto end() { return std::rend(range_); }

  private:
    Range range_;
};
template <class Range> Backwards(Range&&) -> Backwards<Range>;

} // namespace rawqp
