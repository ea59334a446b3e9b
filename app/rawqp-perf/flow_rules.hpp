// SPDX-License-Identifier: BSD-3-Clause
// The rate at which a port accepts flow rules.
#pragma once

#include "app/rawqp-perf/port.hpp"
#include "app/rawqp-perf/report.hpp"

namespace perf {

/// Rules per second: `rules` rules, each with a different destination address and UDP port, are
/// created by rte_flow_create() and destroyed. The value is the insertion rate; `more` has the
/// deletion rate and the bytes per rule. In a group above 0, a rule of group 0 jumps to it.
Figure measure_flows(const Port& port, unsigned rules, uint32_t group = 0);

/// The same rules from a template table, through a queue of operations: a rule counts when its
/// result was pulled. The port is stopped and started once, as rte_flow_configure() requires.
Figure measure_async_flows(const Port& port, unsigned rules, uint32_t group = 0);

/// Rules to queue 0 for the addresses to which frames go (FrameWriter), while this lives.
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
