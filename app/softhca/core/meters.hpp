// SPDX-License-Identifier: BSD-3-Clause
// The meters of a device. They come in pairs, which are created, read and written together.
#pragma once

#include "app/softhca/core/meter.hpp"
#include "app/softhca/core/object_ranges.hpp"
#include "app/softhca/core/types.hpp"

#include <array>
#include <cstdint>

namespace softhca::core {

struct MeterPair {
    Number number = 0;
    Number pd = 0; ///< of the SQs that may read and write it
    uint32_t users = 0;
    std::array<Meter, 2> meters{};
};

/// Used with the device locked.
class Meters {
  public:
    /// Creates pairs with consecutive numbers. They are destroyed together, by the number of the
    /// first.
    [[nodiscard]] Outcome<Number> create(const MetersAttr& attr, uint64_t now);
    [[nodiscard]] Outcome<void> destroy(Number first);
    /// Null if there is none.
    [[nodiscard]] MeterPair* find(Number number) { return pairs_.find(number); }
    void clear() { pairs_.clear(); }
    /// For observers.
    [[nodiscard]] const ObjectRanges<MeterPair>& ranges() const { return pairs_; }

  private:
    ObjectRanges<MeterPair> pairs_;
};

} // namespace softhca::core
