// SPDX-License-Identifier: BSD-3-Clause
// What counts the packets of a rule, or of several.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/steering/devx.hpp"

#include <memory>

namespace rawqp {

struct FlowCounts {
    uint64_t packets = 0, bytes = 0;
};

/// Counts for the rules that refer to it, whichever engines put these to the device: each engine
/// has an object of its own in it, made for the first rule that it counts. Outlives its rules.
/// Control threads only.
class FlowCounter {
  public:
    FlowCounter(ibv_context* context, Devx& devx) : context_(context), devx_(devx) {}

    /// For rules by verbs. Null with errno.
    [[nodiscard]] ibv_counters* verbs();
    /// For rules in the device's own terms. Null with errno.
    [[nodiscard]] const DevxObject* devx();

    /// Since it was made or last reset, also over times when no rule counted.
    [[nodiscard]] Result<FlowCounts> read();
    /// Sets to zero what read() has told.
    void reset(const FlowCounts& told) {
        seen_.packets += told.packets;
        seen_.bytes += told.bytes;
    }

  private:
    ibv_context* context_;
    Devx& devx_;
    verbs::Handle<ibv_counters> verbs_;
    DevxObject object_;
    FlowCounts seen_; ///< when it was last reset
};
/// Of one rule, or shared by several.
using CounterRef = std::shared_ptr<FlowCounter>;

} // namespace rawqp
