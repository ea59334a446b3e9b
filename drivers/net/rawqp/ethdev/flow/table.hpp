// SPDX-License-Identifier: BSD-3-Clause
// rte_flow rules of one port: translation, installation, life cycle over port stop and start.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"

#include <memory>

namespace rawqp {

class PortGuard;

/// validate and create accept the same set: what the translator understands and the device takes
/// (asked by a trial rule that no traffic meets), and no match twice at one priority (EEXIST).
/// rte_flow_error names the offending item or action; its message stays valid until the next
/// refusal on the same thread.
///
/// Control threads, one at a time per port (ethdev's lock for flow operations sees to that).
class FlowTable {
  public:
    /// With a guard, rules reserve the TCP and UDP ports that they take from the kernel.
    FlowTable(Steering& steering, RxQueueSet& queues, std::unique_ptr<PortGuard> guard);
    FlowTable(Steering& steering, RxQueueSet& queues);
    ~FlowTable();

    int validate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                 const rte_flow_action* actions, rte_flow_error* error);
    rte_flow* create(const rte_flow_attr* attr, const rte_flow_item* pattern,
                     const rte_flow_action* actions, rte_flow_error* error);
    int destroy(rte_flow* flow, rte_flow_error* error);
    int flush(rte_flow_error* error);
    /// Action count only: packets and bytes since creation or the last reset, also across stops.
    int query(rte_flow* flow, const rte_flow_action* action, void* data, rte_flow_error* error);

    /// Other actions for what the rule matches, with no packet lost or taken twice.
    int update_actions(rte_flow* flow, const rte_flow_action* actions, rte_flow_error* error);

    /// Indirect actions: see rte_flow_action_handle_create and its kind. An update of rss leads the
    /// packets of all its rules elsewhere, with none lost or taken twice, or changes nothing.
    rte_flow_action_handle* share(const rte_flow_indir_action_conf* conf,
                                  const rte_flow_action* action, rte_flow_error* error);
    int unshare(rte_flow_action_handle* handle, rte_flow_error* error);
    int update_shared(rte_flow_action_handle* handle, const void* update, rte_flow_error* error);
    int query_shared(const rte_flow_action_handle* handle, void* data, rte_flow_error* error);

    /// Writes the rule, or all of them with null, as people read them.
    int dump(const rte_flow* flow, FILE* file, rte_flow_error* error);

    /// Port start: installs every rule in hardware, or none and says which one failed.
    [[nodiscard]] Result<void> start();
    /// Port stop: takes the rules out of hardware and keeps them; no hash QP stays in use.
    void stop();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace rawqp
