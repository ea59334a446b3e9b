// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/flow/counter.hpp"

#include "drivers/net/rawqp/ethdev/errno_text.hpp"

#include <cerrno>

namespace rawqp {

FlowResult<CounterRef> FlowCounter::make(ibv_context* context, const rte_flow_action* action) {
    ibv_counters_init_attr init{};
    auto counter = std::make_shared<FlowCounter>();
    counter->counters_ = verbs::Handle<ibv_counters>(ibv_create_counters(context, &init),
                                                     {ibv_destroy_counters, "flow counters"});
    int error = counter->counters_ ? 0 : errno;
    // Indices 0 and 1 of what ibv_read_counters fills.
    for (const auto what : {IBV_COUNTER_PACKETS, IBV_COUNTER_BYTES}) {
        ibv_counter_attach_attr attach{};
        attach.counter_desc = what;
        attach.index = what;
        if (error == 0) error = ibv_attach_counters_point_flow(counter->get(), &attach, nullptr);
    }
    if (error != 0)
        return refuse(ENOTSUP, RTE_FLOW_ERROR_TYPE_ACTION, action,
                      "action count: the device offers no flow counters: {}",
                      errno_text(error, Attempt::steer));
    return counter;
}

FlowResult<void> FlowCounter::query(rte_flow_query_count& result) {
    uint64_t values[2] = {};
    if (const int code = ibv_read_counters(get(), values, 2, 0))
        return refuse(code, RTE_FLOW_ERROR_TYPE_UNSPECIFIED, nullptr,
                      "cannot read the rule's counters: {}", errno_text(code, Attempt::steer));
    result.hits_set = result.bytes_set = 1;
    result.hits = values[IBV_COUNTER_PACKETS] - seen_packets_;
    result.bytes = values[IBV_COUNTER_BYTES] - seen_bytes_;
    if (result.reset != 0) {
        seen_packets_ = values[IBV_COUNTER_PACKETS];
        seen_bytes_ = values[IBV_COUNTER_BYTES];
    }
    return {};
}

} // namespace rawqp
