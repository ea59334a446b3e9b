// SPDX-License-Identifier: BSD-3-Clause
// Between ethdev and the table of rte_flow rules.
#include "drivers/net/rawqp/ethdev/flow/ops.hpp"

#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"

#include <algorithm>

namespace rawqp {
namespace {

int isolate(rte_eth_dev* dev, int set, rte_flow_error* error) noexcept {
    Port& port = Port::of(dev);
    const std::lock_guard lock(port.control);
    port.isolated = set != 0;
    if (port.isolated) {
        port.filters->clear();
        return 0;
    }
    if (const Result<void> done = apply_filters(port, wanted_filters(port)); !done) {
        port.isolated = true;
        return rte_flow_error_set(error, -report(port.name, done.error()),
                                  RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                                  "the port's own filters cannot be installed again");
    }
    return 0;
}

/// Indirect actions, and other actions for a rule.
constexpr void add_action_ops(rte_flow_ops& ops) {
    ops.action_handle_create = [](rte_eth_dev* dev, const rte_flow_indir_action_conf* conf,
                                  const rte_flow_action* action, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->share(conf, action, error);
    };
    ops.action_handle_destroy = [](rte_eth_dev* dev, rte_flow_action_handle* handle,
                                   rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->unshare(handle, error);
    };
    ops.action_handle_update = [](rte_eth_dev* dev, rte_flow_action_handle* handle,
                                  const void* update, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->update_shared(handle, update, error);
    };
    ops.action_handle_query = [](rte_eth_dev* dev, const rte_flow_action_handle* handle, void* data,
                                 rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->query_shared(handle, data, error);
    };
    compat::set_actions_update<[](rte_eth_dev* dev, rte_flow* flow, const rte_flow_action* actions,
                                  rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->update_actions(flow, actions, error);
    }>(ops);
}

constexpr rte_flow_ops make_flow_ops() {
    rte_flow_ops ops{};
    ops.validate = [](rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item* pattern,
                      const rte_flow_action* actions, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->validate(attr, pattern, actions, error);
    };
    ops.create = [](rte_eth_dev* dev, const rte_flow_attr* attr, const rte_flow_item* pattern,
                    const rte_flow_action* actions, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->create(attr, pattern, actions, error);
    };
    ops.destroy = [](rte_eth_dev* dev, rte_flow* flow, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->destroy(flow, error);
    };
    ops.flush = [](rte_eth_dev* dev, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->flush(error);
    };
    ops.query = [](rte_eth_dev* dev, rte_flow* flow, const rte_flow_action* action, void* data,
                   rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->query(flow, action, data, error);
    };
    ops.dev_dump = [](rte_eth_dev* dev, rte_flow* flow, FILE* file,
                      rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->dump(flow, file, error);
    };
    ops.isolate = isolate;
    add_action_ops(ops);
    return ops;
}
constinit const rte_flow_ops kFlowOps = make_flow_ops();

} // namespace

int flow_ops_get(rte_eth_dev*, const rte_flow_ops** ops) noexcept {
    *ops = &kFlowOps;
    return 0;
}

} // namespace rawqp
