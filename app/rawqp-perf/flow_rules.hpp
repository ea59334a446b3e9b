// SPDX-License-Identifier: BSD-3-Clause
// How fast a port takes flow rules.
#pragma once

#include "app/rawqp-perf/port.hpp"
#include "app/rawqp-perf/report.hpp"

namespace perf {

/// Rules per second: `rules` rules, each of another destination address and UDP port, are created
/// by rte_flow_create() and destroyed. The value is the rate of insertion; `more` has that of
/// deletion and the bytes that a rule takes. In a group above 0, to which a rule of group 0 jumps.
Figure measure_flows(const Port& port, unsigned rules, uint32_t group = 0);

/// The same rules from a template table, by a queue of operations: a rule counts when its result
/// was pulled. The port is stopped and started once, as rte_flow_configure() wants it.
Figure measure_async_flows(const Port& port, unsigned rules, uint32_t group = 0);

/// Rules for addresses to which frames go (FrameWriter), to queue 0, as long as this lives.
class AddressRules {
  public:
    AddressRules(const Port& port, uint32_t addresses);
    ~AddressRules();
    AddressRules(const AddressRules&) = delete;
    AddressRules& operator=(const AddressRules&) = delete;

  private:
    const Port& port_;
};

} // namespace perf
