// SPDX-License-Identifier: BSD-3-Clause
// Counts the packets of a rule, or of several.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/ethdev/devx/devx.hpp"
#include "drivers/net/rawqp/ethdev/ref.hpp"

namespace rawqp {

struct FlowCounts {
    uint64_t packets = 0, bytes = 0;
};

/// Counts for the rules that refer to it, whichever engines installed them: each engine has its own
/// object in it, made for the first rule that it counts. Outlives its rules. Control threads only.
class FlowCounter {
  public:
    /// `shared`: it belongs to no single rule.
    FlowCounter(ibv_context* context, Devx& devx, bool shared)
        : context_(context), devx_(devx), shared_(shared) {}

    [[nodiscard]] bool shared() const { return shared_; }

    /// For rules through verbs. Null with errno.
    [[nodiscard]] ibv_counters* verbs();
    /// For rules in the device's own terms. Null with errno.
    [[nodiscard]] const DevxObject* devx();

    /// Counts since it was made or last reset, including times when no rule counted.
    [[nodiscard]] Result<FlowCounts> read();
    /// Counts that are never reset. For a verbs counter in which no rule counts, as last noted.
    [[nodiscard]] Result<FlowCounts> total();
    /// Called before the last rule that counts here may be removed: verbs reads nothing after that.
    void note() {
        if (verbs_) (void)total();
    }
    /// Resets the counts by what read() has reported.
    void reset(const FlowCounts& told) {
        seen_.packets += told.packets;
        seen_.bytes += told.bytes;
    }
    /// Sets the counter, in which no rule counts, to zero for another rule. False with errno.
    [[nodiscard]] bool renew();
    /// Makes in advance what the other one has made for its rules. False with errno.
    [[nodiscard]] bool prepare(const FlowCounter& other);

  private:
    [[nodiscard]] int read_devx(FlowCounts& counts) const;

    ibv_context* context_;
    Devx& devx_;
    bool shared_;
    verbs::Handle<ibv_counters> verbs_;
    DevxObject object_;
    FlowCounts seen_;  ///< when it was last reset
    FlowCounts noted_; ///< through verbs, when it was last read
};
/// The counter of one rule, or one shared by several.
using CounterRef = Ref<FlowCounter>;

} // namespace rawqp
