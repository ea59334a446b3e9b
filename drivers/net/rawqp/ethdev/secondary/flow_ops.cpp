// SPDX-License-Identifier: BSD-3-Clause
// Flow rules and meters in a secondary process: counters can be queried, everything else is
// refused. That includes flow queues, whose operations DPDK calls without checking whether they
// exist (up to 23.11).
#include "drivers/net/rawqp/ethdev/secondary/refusal.hpp"
#include "drivers/net/rawqp/ethdev/secondary/secondary.hpp"

#include <tuple>

namespace rawqp::secondary {
namespace {

/// Once the primary is gone, rte_flow has a text of its own.
const char* why_not_queried(int error) {
    switch (error) {
    case EAGAIN:
        return "the primary process is busy with the port, in another control call or with queues "
               "that it stops: ask again later";
    case ETIMEDOUT:
        return "the primary process does not answer: it may be stopped, or its EAL threads may be "
               "overloaded: ask again once it runs";
    case EINVAL:
        return "the primary process has no such rule, or the rule has no action count: the handle "
               "is that of rte_flow_create there, until the rule is destroyed";
    case ENODEV: return "the primary process has no such port at present: ask again later";
    default:
        return "the primary process cannot read the counter from the device: see "
               "rte_eth_dev_is_removed() and the primary's log";
    }
}

int query_flow(rte_eth_dev* dev, rte_flow* flow, const rte_flow_action* action, void* data,
               rte_flow_error* error) noexcept {
    while (action->type == RTE_FLOW_ACTION_TYPE_VOID)
        ++action;
    if (action->type != RTE_FLOW_ACTION_TYPE_COUNT)
        return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
                                  "only action count can be queried");
    const int failed =
        SecondaryPort::of(dev).query_flow(flow, *static_cast<rte_flow_query_count*>(data));
    if (failed == 0) return 0;
    return rte_flow_error_set(error, failed, RTE_FLOW_ERROR_TYPE_HANDLE, flow,
                              why_not_queried(failed));
}

int tell(rte_flow_error* error, int code) {
    return rte_flow_error_set(error, code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                              "flow rules are made by the primary process");
}
int tell(rte_mtr_error* error, int code) {
    return -rte_mtr_error_set(error, code, RTE_MTR_ERROR_TYPE_UNSPECIFIED, nullptr,
                              "meters are made by the primary process");
}

/// Refuses a call whose last argument receives the reason.
template <Name kName, class Operation> struct RefusedWithReason;
template <Name kName, class R, class... Args>
struct RefusedWithReason<kName, R (*)(rte_eth_dev*, Args...)> {
    static R call(rte_eth_dev* dev, Args... args) noexcept {
        auto* const error = std::get<sizeof...(Args) - 1>(std::tuple(args...));
        const int answer = tell(error, -refuse(dev, kName.text));
        if constexpr (std::is_pointer_v<R>)
            return nullptr;
        else
            return answer;
    }
};
template <Name kName, class Operation> constexpr void refused(Operation& operation) {
    operation = RefusedWithReason<kName, Operation>::call;
}

constexpr void refuse_actions(rte_flow_ops& ops) {
    refused<"rte_flow_action_handle_create">(ops.action_handle_create);
    refused<"rte_flow_action_handle_destroy">(ops.action_handle_destroy);
    refused<"rte_flow_action_handle_update">(ops.action_handle_update);
    refused<"rte_flow_action_handle_query">(ops.action_handle_query);
}

constexpr void refuse_templates(rte_flow_ops& ops) {
    refused<"rte_flow_info_get">(ops.info_get);
    refused<"rte_flow_configure">(ops.configure);
    refused<"rte_flow_pattern_template_create">(ops.pattern_template_create);
    refused<"rte_flow_pattern_template_destroy">(ops.pattern_template_destroy);
    refused<"rte_flow_actions_template_create">(ops.actions_template_create);
    refused<"rte_flow_actions_template_destroy">(ops.actions_template_destroy);
    refused<"rte_flow_template_table_create">(ops.template_table_create);
    refused<"rte_flow_template_table_destroy">(ops.template_table_destroy);
}

constexpr auto kRefuseAsync = [](auto& ops) {
    refused<"rte_flow_async_create">(ops.async_create);
    refused<"rte_flow_async_destroy">(ops.async_destroy);
    refused<"rte_flow_push">(ops.push);
    refused<"rte_flow_pull">(ops.pull);
    refused<"rte_flow_async_action_handle_create">(ops.async_action_handle_create);
    refused<"rte_flow_async_action_handle_destroy">(ops.async_action_handle_destroy);
    refused<"rte_flow_async_action_handle_update">(ops.async_action_handle_update);
    refused<"rte_flow_async_action_handle_query">(ops.async_action_handle_query);
    compat::add_later_async_ops(
        ops, [](auto& create) { refused<"rte_flow_async_create_by_index">(create); },
        [](auto& update) { refused<"rte_flow_async_actions_update">(update); });
};

constexpr rte_flow_ops make_flow_ops() {
    rte_flow_ops ops{};
    ops.query = query_flow;
    refused<"rte_flow_validate">(ops.validate);
    refused<"rte_flow_create">(ops.create);
    refused<"rte_flow_destroy">(ops.destroy);
    refused<"rte_flow_flush">(ops.flush);
    refused<"rte_flow_isolate">(ops.isolate);
    refused<"rte_flow_dev_dump">(ops.dev_dump);
    refused<"rte_flow_get_aged_flows">(ops.get_aged_flows);
    refused<"rte_flow_get_q_aged_flows">(ops.get_q_aged_flows);
    refuse_actions(ops);
    refuse_templates(ops);
    compat::add_async_ops<kRefuseAsync>(ops);
    return ops;
}
constinit const rte_flow_ops kFlowOps = make_flow_ops();

constexpr rte_mtr_ops make_meter_ops() {
    rte_mtr_ops ops{};
    refused<"rte_mtr_capabilities_get">(ops.capabilities_get);
    refused<"rte_mtr_meter_profile_add">(ops.meter_profile_add);
    refused<"rte_mtr_meter_profile_delete">(ops.meter_profile_delete);
    refused<"rte_mtr_meter_policy_validate">(ops.meter_policy_validate);
    refused<"rte_mtr_meter_policy_add">(ops.meter_policy_add);
    refused<"rte_mtr_meter_policy_delete">(ops.meter_policy_delete);
    refused<"rte_mtr_create">(ops.create);
    refused<"rte_mtr_destroy">(ops.destroy);
    refused<"rte_mtr_meter_enable">(ops.meter_enable);
    refused<"rte_mtr_meter_disable">(ops.meter_disable);
    refused<"rte_mtr_meter_profile_update">(ops.meter_profile_update);
    refused<"rte_mtr_stats_update">(ops.stats_update);
    refused<"rte_mtr_stats_read">(ops.stats_read);
    return ops;
}
constinit const rte_mtr_ops kMeterOps = make_meter_ops();

} // namespace

int flow_ops_get(rte_eth_dev*, const rte_flow_ops** ops) noexcept {
    *ops = &kFlowOps;
    return 0;
}

int meter_ops_get(rte_eth_dev*, void* ops) noexcept {
    *static_cast<const rte_mtr_ops**>(ops) = &kMeterOps;
    return 0;
}

void set_flow_queue_ops(rte_eth_dev& dev) noexcept { compat::set_async_ops<kRefuseAsync>(dev); }

} // namespace rawqp::secondary
