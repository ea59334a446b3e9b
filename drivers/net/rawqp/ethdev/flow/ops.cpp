// SPDX-License-Identifier: BSD-3-Clause
// Between ethdev and the table of rte_flow rules.
#include "drivers/net/rawqp/ethdev/flow/ops.hpp"

#include "drivers/net/rawqp/ethdev/flow/table.hpp"
#include "drivers/net/rawqp/ethdev/report.hpp"
#include "drivers/net/rawqp/ethdev/steering/port_filters.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>

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

/// The operation that calls this method of the port's rules, with the port locked.
template <auto Method> struct Locked;
template <class Answer, class... Arguments, Answer (FlowTable::*Method)(Arguments...)>
struct Locked<Method> {
    static Answer call(rte_eth_dev* dev, Arguments... arguments) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return (*port.flows.*Method)(arguments...);
    }
};
template <auto Method> constexpr auto* kLocked = Locked<Method>::call;

template <class Handle>
constexpr auto* kDestroyLocked =
    kLocked<static_cast<int (FlowTable::*)(Handle*, rte_flow_error*)>(&FlowTable::destroy)>;

/// Indirect actions, and changing the actions of a rule.
constexpr void add_action_ops(rte_flow_ops& ops) {
    ops.action_handle_create = kLocked<&FlowTable::share>;
    ops.action_handle_destroy = kLocked<&FlowTable::unshare>;
    ops.action_handle_update = kLocked<&FlowTable::update_shared>;
    ops.action_handle_query = kLocked<&FlowTable::query_shared>;
    compat::set_actions_update<kLocked<&FlowTable::update_actions>>(ops);
}

/// Templates, and tables of them.
constexpr void add_template_ops(rte_flow_ops& ops) {
    ops.info_get = [](rte_eth_dev*, rte_flow_port_info* port, rte_flow_queue_info* queue,
                      rte_flow_error*) noexcept { return FlowTable::info(port, queue); };
    ops.configure = [](rte_eth_dev* dev, const rte_flow_port_attr* attributes, uint16_t queues,
                       const rte_flow_queue_attr** sizes, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->configure(*attributes, {sizes, queues}, error);
    };
    ops.pattern_template_create = [](rte_eth_dev* dev,
                                     const rte_flow_pattern_template_attr* attributes,
                                     const rte_flow_item* items, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->create_pattern_template(*attributes, items, error);
    };
    ops.actions_template_create = [](rte_eth_dev* dev,
                                     const rte_flow_actions_template_attr* attributes,
                                     const rte_flow_action* actions, const rte_flow_action* masks,
                                     rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->create_actions_template(*attributes, actions, masks, error);
    };
    ops.template_table_create = [](rte_eth_dev* dev, const rte_flow_template_table_attr* attributes,
                                   rte_flow_pattern_template** patterns, uint8_t pattern_count,
                                   rte_flow_actions_template** actions, uint8_t action_count,
                                   rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->create_template_table(*attributes, {patterns, pattern_count},
                                                 {actions, action_count}, error);
    };
    ops.pattern_template_destroy = kDestroyLocked<rte_flow_pattern_template>;
    ops.actions_template_destroy = kDestroyLocked<rte_flow_actions_template>;
    ops.template_table_destroy = kDestroyLocked<rte_flow_template_table>;
}

/// An operation that is not supported. Its last argument receives the reason.
template <const char* kReason, class Operation> struct NotOffered;
template <const char* kReason, class Answer, class... Arguments>
struct NotOffered<kReason, Answer (*)(rte_eth_dev*, Arguments...)> {
    static Answer call(rte_eth_dev*, Arguments... arguments) noexcept {
        auto* const error = std::get<sizeof...(Arguments) - 1>(std::tuple(arguments...));
        const int answer =
            rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr, kReason);
        if constexpr (std::is_pointer_v<Answer>)
            return nullptr;
        else
            return answer;
    }
};
constexpr char kNoIndex[] = "rules of a template table have no index: use rte_flow_async_create";
constexpr char kNoUpdate[] =
    "flow queues do not update the actions of rules: use rte_flow_actions_update";

/// Queues of operations. Several threads may each use one: the port has one lock.
template <class Ops> constexpr void fill_async_ops(Ops& ops) {
    ops.async_create = [](rte_eth_dev* dev, uint32_t queue, const rte_flow_op_attr*,
                          rte_flow_template_table* table, const rte_flow_item* items,
                          uint8_t pattern, const rte_flow_action* actions, uint8_t action,
                          void* user_data, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->async_create(queue, table, items, pattern, actions, action, user_data,
                                        error);
    };
    ops.async_destroy = [](rte_eth_dev* dev, uint32_t queue, const rte_flow_op_attr*,
                           rte_flow* flow, void* user_data, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->async_destroy(queue, flow, user_data, error);
    };
    ops.push = [](rte_eth_dev* dev, uint32_t queue, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->push(queue, error);
    };
    ops.pull = [](rte_eth_dev* dev, uint32_t queue, rte_flow_op_result* results, uint16_t count,
                  rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->pull(queue, {results, count}, error);
    };
    ops.async_action_handle_create = [](rte_eth_dev* dev, uint32_t queue, const rte_flow_op_attr*,
                                        const rte_flow_indir_action_conf* conf,
                                        const rte_flow_action* action, void* user_data,
                                        rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        rte_flow_action_handle* handle = nullptr;
        port.flows->async(queue, user_data, error, [&] {
            handle = port.flows->share(conf, action, error);
            return handle != nullptr ? 0 : -rte_errno;
        });
        return handle;
    };
    ops.async_action_handle_destroy = [](rte_eth_dev* dev, uint32_t queue, const rte_flow_op_attr*,
                                         rte_flow_action_handle* handle, void* user_data,
                                         rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->async(queue, user_data, error,
                                 [&] { return port.flows->unshare(handle, error); });
    };
    ops.async_action_handle_update = [](rte_eth_dev* dev, uint32_t queue, const rte_flow_op_attr*,
                                        rte_flow_action_handle* handle, const void* update,
                                        void* user_data, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->async(queue, user_data, error,
                                 [&] { return port.flows->update_shared(handle, update, error); });
    };
    ops.async_action_handle_query = [](rte_eth_dev* dev, uint32_t queue, const rte_flow_op_attr*,
                                       const rte_flow_action_handle* handle, void* data,
                                       void* user_data, rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->async(queue, user_data, error,
                                 [&] { return port.flows->query_shared(handle, data, error); });
    };
    compat::add_later_async_ops(
        ops,
        [](auto& create) {
            create = NotOffered<kNoIndex, std::remove_reference_t<decltype(create)>>::call;
        },
        [](auto& update) {
            update = NotOffered<kNoUpdate, std::remove_reference_t<decltype(update)>>::call;
        });
}
constexpr auto kFillAsyncOps = [](auto& ops) { fill_async_ops(ops); };

constexpr rte_flow_ops make_flow_ops() {
    rte_flow_ops ops{};
    ops.validate = kLocked<&FlowTable::validate>;
    ops.create = kLocked<&FlowTable::create>;
    ops.destroy = kDestroyLocked<rte_flow>;
    ops.flush = kLocked<&FlowTable::flush>;
    ops.query = kLocked<&FlowTable::query>;
    ops.dev_dump = [](rte_eth_dev* dev, rte_flow* flow, FILE* file,
                      rte_flow_error* error) noexcept {
        Port& port = Port::of(dev);
        const std::lock_guard lock(port.control);
        return port.flows->dump(flow, file, error);
    };
    ops.isolate = isolate;
    ops.get_aged_flows = kLocked<&FlowTable::aged>;
    ops.get_q_aged_flows = [](rte_eth_dev* dev, uint32_t, void** contexts, uint32_t count,
                              rte_flow_error* error) noexcept { // of all queues
        return kLocked<&FlowTable::aged>(dev, contexts, count, error);
    };
    add_action_ops(ops);
    add_template_ops(ops);
    compat::add_async_ops<kFillAsyncOps>(ops);
    return ops;
}
constinit const rte_flow_ops kFlowOps = make_flow_ops();

} // namespace

void set_flow_queue_ops(rte_eth_dev& dev) noexcept { compat::set_async_ops<kFillAsyncOps>(dev); }

void unset_flow_queue_ops(rte_eth_dev& dev) noexcept { compat::unset_async_ops(dev); }

int flow_ops_get(rte_eth_dev*, const rte_flow_ops** ops) noexcept {
    *ops = &kFlowOps;
    return 0;
}

} // namespace rawqp
