// SPDX-License-Identifier: BSD-3-Clause
// The JSON view of a device that `softhca stat` shows.
#include "app/softhca/core/device_state.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace softhca::core {
namespace {

using nlohmann::json;

const char* name(QueueState state) {
    switch (state) {
    case QueueState::reset: return "reset";
    case QueueState::ready: return "ready";
    case QueueState::error: return "error";
    }
    return "?";
}

json to_json(const PortCounters& counters) {
    return {
        {"wire_rx_packets", counters.wire_rx_packets},
        {"wire_rx_bytes", counters.wire_rx_bytes},
        {"wire_tx_packets", counters.wire_tx_packets},
        {"wire_tx_bytes", counters.wire_tx_bytes},
        {"loopback_packets", counters.loopback_packets},
        {"loopback_bytes", counters.loopback_bytes},
        {"delivered", counters.delivered},
        {"kernel_rx_packets", counters.kernel_rx_packets},
        {"kernel_tx_packets", counters.kernel_tx_packets},
        {"drop_out_of_buffer", counters.drop_out_of_buffer},
        {"drop_no_match", counters.drop_no_match},
        {"drop_rule", counters.drop_rule},
        {"drop_oversize", counters.drop_oversize},
        {"drop_undersize", counters.drop_undersize},
        {"drop_queue_not_ready", counters.drop_queue_not_ready},
        {"drop_rx_error", counters.drop_rx_error},
        {"drop_self_loopback", counters.drop_self_loopback},
        {"drop_link_down", counters.drop_link_down},
        {"drop_kernel", counters.drop_kernel},
        {"drop_rewrite", counters.drop_rewrite},
        {"drop_tx_rule", counters.drop_tx_rule},
        {"drop_tx_wire", counters.drop_tx_wire},
        {"drop_tx_oversize", counters.drop_tx_oversize},
        {"tx_error_wqes", counters.tx_error_wqes},
    };
}

json to_json(const Queue& queue) {
    const QueueCounters& counters = queue.counters;
    return {
        {"number", queue.number},
        {"cq", queue.cq->number()},
        {"state", name(queue.state)},
        {"entries", queue.entries()},
        {"pending", queue.pending()},
        {"packets", counters.packets},
        {"bytes", counters.bytes},
        {"wqes", counters.wqes},
        {"cqes", counters.cqes},
        {"doorbells", counters.doorbells},
        {"error_cqes", counters.error_cqes},
        {"out_of_buffer", counters.out_of_buffer},
    };
}

template <class Q> json to_json(const ObjectTable<Q>& queues) {
    json list = json::array();
    for (const auto& [number, queue] : queues)
        list.push_back(to_json(*queue));
    return list;
}

} // namespace

json Device::stats() const {
    const ControlLock lock(*state_);
    const State& state = *state_;
    LookupCounts steering = state.steering.counts();
    steering += state.flow_tables.counts();
    return {
        {"device", state.config.name},
        {"mac", fmt::format("{:02x}", fmt::join(state.port.mac(), ":"))},
        {"mtu", state.port.mtu()},
        {"link_up", state.port.link_up()},
        {"counters", to_json(state.port.counters)},
        {"objects",
         {{"pds", state.pds.size()},
          {"mkeys", state.mkeys.size()},
          {"cqs", state.cqs.size()},
          {"sqs", state.sqs.size()},
          {"rqs", state.rqs.size()},
          {"rqts", state.rqts.size()},
          {"tirs", state.tirs.size()},
          {"flows", state.flows.size()}}},
        {"steering", {{"lookups", steering.lookups}, {"probes", steering.probes}}},
        {"sqs", to_json(state.sqs)},
        {"rqs", to_json(state.rqs)},
    };
}

} // namespace softhca::core
