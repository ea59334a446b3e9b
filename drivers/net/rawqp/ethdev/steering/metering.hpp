// SPDX-License-Identifier: BSD-3-Clause
// What happens to packets that a meter has colored: a table behind the entry that runs it (DevX).
#pragma once

#include "drivers/net/rawqp/ethdev/steering/group_table.hpp"

namespace rawqp {

class Metering final : public SharedPart {
  public:
    /// `actions` apply to packets that the meter does not drop, and their counter counts these
    /// alone. Null with errno.
    [[nodiscard]] static std::unique_ptr<Metering> make(Devx& devx, bool sends, const Meter& meter,
                                                        EntryActions actions);

    /// The number by which entries name it.
    [[nodiscard]] uint32_t number() const { return table_->object().number; }
    void release() override { delete this; }

  private:
    /// Nothing if the entries of the colors do all. These lead there, and are removed before it.
    Leaf passed_;
    std::unique_ptr<GroupTable> table_;
    std::array<PartRef, RTE_COLORS> entries_;
};

} // namespace rawqp
