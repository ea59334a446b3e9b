// SPDX-License-Identifier: BSD-3-Clause
// What action count counts into.
#pragma once

#include "common/verbs/handles.hpp"
#include "drivers/net/rawqp/ethdev/flow/error.hpp"

#include <memory>

namespace rawqp {

class FlowCounter;
/// Of one rule, or shared by several.
using CounterRef = std::shared_ptr<FlowCounter>;

/// Packets and bytes of the rules that count into it; it outlives their coming and going.
class FlowCounter {
  public:
    /// Refusals name the action.
    [[nodiscard]] static FlowResult<CounterRef> make(ibv_context* context,
                                                     const rte_flow_action* action);
    /// Since its creation or the last reset.
    [[nodiscard]] FlowResult<void> query(rte_flow_query_count& result);
    [[nodiscard]] ibv_counters* get() const { return counters_.get(); }

  private:
    verbs::Handle<ibv_counters> counters_;
    uint64_t seen_packets_ = 0, seen_bytes_ = 0; ///< counts at the last reset
};

} // namespace rawqp
