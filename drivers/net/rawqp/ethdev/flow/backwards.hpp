// SPDX-License-Identifier: BSD-3-Clause
// Iterates ranges backwards: replaces std::views::reverse, which clang 14 cannot compile from gcc
// 12's library.
#pragma once

#include <iterator>

namespace rawqp {

/// A range, or a reference to one, which must outlive it.
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
