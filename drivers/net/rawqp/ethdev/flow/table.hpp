// SPDX-License-Identifier: BSD-3-Clause
// rte_flow rules of one port: translation, installation, life cycle over port stop and start.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/steering/steering.hpp"
#include "drivers/net/rawqp/figure.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <span>

namespace rawqp {

class Meters;
class PortGuard;

/// validate and create accept the same set: what the translator understands and the device takes
/// (found with a trial rule that no traffic meets), and no match twice at one priority (EEXIST).
/// rte_flow_error names the offending item or action; its message stays valid until the next
/// refusal on the same thread.
///
/// Control threads, one at a time per port (its lock ensures that).
class FlowTable {
  public:
    /// With a guard, rules reserve the TCP and UDP ports that they take from the kernel. Without
    /// meters, rules cannot run any.
    FlowTable(Steering& steering, RxQueueSet& queues, std::unique_ptr<PortGuard> guard,
              const Meters* meters);
    FlowTable(Steering& steering, RxQueueSet& queues);
    ~FlowTable();

    int validate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                 const rte_flow_action* actions, rte_flow_error* error);
    rte_flow* create(const rte_flow_attr* attr, const rte_flow_item* pattern,
                     const rte_flow_action* actions, rte_flow_error* error);
    /// Fails only for an invalid handle: a known one is gone afterwards.
    int destroy(rte_flow* flow, rte_flow_error* error);
    int flush(rte_flow_error* error);
    /// For count, packets and bytes since creation or the last reset, also across stops; for age,
    /// see rte_flow_query_age.
    int query(rte_flow* flow, const rte_flow_action* action, void* data, rte_flow_error* error);

    /// Checks which rules have aged; true if the application has to be notified.
    bool look_at_ages(std::chrono::steady_clock::time_point now);
    /// Whether there may be rules to check.
    [[nodiscard]] bool has_ages() const;
    /// Calls this when there are some.
    void on_ages(std::function<void()> call);
    /// See rte_flow_get_aged_flows.
    int aged(void** contexts, uint32_t count, rte_flow_error* error);

    /// Gives the rule other actions, with no packet lost or taken twice.
    int update_actions(rte_flow* flow, const rte_flow_action* actions, rte_flow_error* error);

    /// Indirect actions: see rte_flow_action_handle_create and the like. An update of rss redirects
    /// the packets of all its rules, with none lost or taken twice, or changes nothing.
    rte_flow_action_handle* share(const rte_flow_indir_action_conf* conf,
                                  const rte_flow_action* action, rte_flow_error* error);
    int unshare(rte_flow_action_handle* handle, rte_flow_error* error);
    int update_shared(rte_flow_action_handle* handle, const void* update, rte_flow_error* error);
    int query_shared(const rte_flow_action_handle* handle, void* data, rte_flow_error* error);

    // Templates and queues of operations: see rte_flow_configure and the functions after it. An
    // operation is done when requested: what cannot be done is refused at once, and results always
    // report success.
    static int info(rte_flow_port_info* port, rte_flow_queue_info* queue);
    int configure(const rte_flow_port_attr& port, std::span<const rte_flow_queue_attr*> sizes,
                  rte_flow_error* error);
    rte_flow_pattern_template*
    create_pattern_template(const rte_flow_pattern_template_attr& attributes,
                            const rte_flow_item* items, rte_flow_error* error);
    rte_flow_actions_template*
    create_actions_template(const rte_flow_actions_template_attr& attributes,
                            const rte_flow_action* actions, const rte_flow_action* masks,
                            rte_flow_error* error);
    /// Tries a rule of each pair on the device. Rules of the table need no memory but the table's
    /// own.
    rte_flow_template_table* create_template_table(const rte_flow_template_table_attr& attributes,
                                                   std::span<rte_flow_pattern_template*> patterns,
                                                   std::span<rte_flow_actions_template*> actions,
                                                   rte_flow_error* error);
    int destroy(rte_flow_pattern_template* handle, rte_flow_error* error);
    int destroy(rte_flow_actions_template* handle, rte_flow_error* error);
    int destroy(rte_flow_template_table* handle, rte_flow_error* error);
    rte_flow* async_create(uint32_t queue, rte_flow_template_table* handle,
                           const rte_flow_item* items, uint8_t pattern,
                           const rte_flow_action* actions, uint8_t action, void* user_data,
                           rte_flow_error* error);
    int async_destroy(uint32_t queue, rte_flow* flow, void* user_data, rte_flow_error* error);
    int push(uint32_t queue, rte_flow_error* error) const;
    int pull(uint32_t queue, std::span<rte_flow_op_result> results, rte_flow_error* error);
    /// Runs any operation that returns 0, through a queue.
    template <class Operation>
    int async(uint32_t queue, void* user_data, rte_flow_error* error, Operation operation) {
        if (const int refused = check_room(queue, error); refused != 0) return refused;
        const int result = operation();
        if (result == 0) done(queue, user_data);
        return result;
    }

    /// Writes the rule, or all rules if null, for people to read.
    int dump(const rte_flow* flow, FILE* file, rte_flow_error* error);

    /// How much there is of everything.
    [[nodiscard]] Figures figures() const;

    /// Port start: installs every rule in hardware, or none, and says which one failed.
    [[nodiscard]] Result<void> start();
    /// Port stop: removes the rules from hardware but keeps them; no hash QP stays in use.
    void stop();

  private:
    int check_room(uint32_t queue, rte_flow_error* error) const;
    void done(uint32_t queue, void* user_data);

    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace rawqp
