// SPDX-License-Identifier: BSD-3-Clause
// Numbers for objects that come and go for as long as the device runs.
#pragma once

#include "app/softhca/core/types.hpp"

#include <cstddef>
#include <set>

namespace softhca::core {

/// 1 to `last`, given out in turn: a number that was returned is not reused until all others have
/// been.
class Numbers {
  public:
    explicit Numbers(Number last) : last_(last) {}

    /// Requires a free number.
    [[nodiscard]] Number take() {
        do {
            latest_ = latest_ < last_ ? latest_ + 1 : 1;
        } while (!taken_.insert(latest_).second);
        return latest_;
    }
    void give_back(Number number) { taken_.erase(number); }
    void clear() { taken_.clear(); }
    [[nodiscard]] size_t taken() const { return taken_.size(); }

  private:
    Number last_, latest_ = 0;
    std::set<Number> taken_;
};

} // namespace softhca::core
