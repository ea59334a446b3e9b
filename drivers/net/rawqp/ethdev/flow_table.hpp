// SPDX-License-Identifier: BSD-3-Clause
// rte_flow rules of one port: translation, installation, life cycle over port stop and start.
#pragma once

#include "common/result.hpp"
#include "drivers/net/rawqp/dpdk.hpp"
#include "drivers/net/rawqp/ethdev/rss.hpp"

#include <functional>
#include <memory>

namespace rawqp {

/// validate and create accept the same set; rte_flow_error names the offending item or action.
class FlowTable {
  public:
    /// `queue_count` and `default_rss` tell the port's current configuration when a rule is made.
    struct PortView {
        std::function<uint16_t()> rx_queue_count;
        std::function<bool()> started;
    };
    FlowTable(const verbs::Api& api, RssQps& qps, uint8_t ib_port, PortView port);
    ~FlowTable();

    int validate(const rte_flow_attr* attr, const rte_flow_item* pattern,
                 const rte_flow_action* actions, rte_flow_error* error);
    rte_flow* create(const rte_flow_attr* attr, const rte_flow_item* pattern,
                     const rte_flow_action* actions, rte_flow_error* error);
    int destroy(rte_flow* flow, rte_flow_error* error);
    int flush(rte_flow_error* error);

    /// Port start: installs every rule in hardware. Port stop: takes them out and keeps them.
    [[nodiscard]] Result<void> start();
    void stop();
    [[nodiscard]] bool uses_mark() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace rawqp
