// SPDX-License-Identifier: BSD-3-Clause
// What counts the packets of a rule, or of several.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/ref.hpp"

namespace rawqp {

struct FlowCounts {
    uint64_t packets = 0, bytes = 0;
};

/// Counts for the rules that refer to it, whichever engines put these to the device: each engine
/// has an object of its own in it, made for the first rule that it counts. Outlives its rules.
/// Control threads only.
class FlowCounter {
  public:
    /// `shared`: it is of no rule's own.
    FlowCounter(ibv_context* context, Devx& devx, bool shared)
        : context_(context), devx_(devx), shared_(shared) {}

    [[nodiscard]] bool shared() const { return shared_; }

    /// For rules by verbs. Null with errno.
    [[nodiscard]] ibv_counters* verbs();
    /// For rules in the device's own terms. Null with errno.
    [[nodiscard]] const DevxObject* devx();

    /// Since it was made or last reset, also over times when no rule counted.
    [[nodiscard]] Result<FlowCounts> read();
    /// Never reset. Of a counter by verbs that no rule counts in, as it was noted last.
    [[nodiscard]] Result<FlowCounts> total();
    /// Before the last rule that counts here may go from the device: verbs reads nothing then.
    void note() {
        if (verbs_) (void)total();
    }
    /// Sets to zero what read() has told.
    void reset(const FlowCounts& told) {
        seen_.packets += told.packets;
        seen_.bytes += told.bytes;
    }
    /// Sets to zero, for another rule, what no rule counts in. False with errno.
    [[nodiscard]] bool renew();
    /// Makes now what the other one has made for its rules. False with errno.
    [[nodiscard]] bool prepare(const FlowCounter& other);

  private:
    [[nodiscard]] int read_devx(FlowCounts& counts) const;

    ibv_context* context_;
    Devx& devx_;
    bool shared_;
    verbs::Handle<ibv_counters> verbs_;
    DevxObject object_;
    FlowCounts seen_;  ///< when it was last reset
    FlowCounts noted_; ///< by verbs, when it was last read
};
/// Of one rule, or shared by several.
using CounterRef = Ref<FlowCounter>;

} // namespace rawqp
