// SPDX-License-Identifier: BSD-3-Clause
// Copies of some packets of a rule, in the device's own terms: a sampler, which entries lead to,
// and the tables that it leads to (DevX).
#pragma once

#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"

namespace rawqp {

class Sampling final : public SharedPart {
  public:
    /// On average, one in `ratio` packets is copied; the actions for the copies, and for all
    /// packets. Null with errno.
    [[nodiscard]] static std::unique_ptr<Sampling>
    make(Devx& devx, uint32_t ratio, const EntryActions& copies, const EntryActions& all);

    /// The number by which entries name it.
    [[nodiscard]] uint32_t number() const { return object_.number; }
    void release() override { delete this; }

  private:
    Leaf copies_, all_; ///< the second has nothing where packets go on to a group
    DevxObject object_;
};

} // namespace rawqp
