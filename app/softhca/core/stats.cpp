// SPDX-License-Identifier: BSD-3-Clause
// The JSON view of a device that `softhca stat` shows.
#include "app/softhca/core/describe.hpp"
#include "app/softhca/core/device_state.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace softhca::core {
namespace {

using nlohmann::json;

json to_json(const PortCounters& counters) {
    json object;
    for (const CounterName& one : port_counters())
        object[one.name] = counters.*one.counter;
    return object;
}

json to_json(const Queue& queue) {
    const QueueCounters& counters = queue.counters;
    return {
        {"number", queue.number},
        {"cq", queue.cq ? queue.cq->number() : 0},
        {"state", text_of(queue.state)},
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

void add_held(json&, const Sq&) {}
void add_held(json& row, const Rq& rq) { row["held"] = rq.hairpin->packets(); }

template <class Q> json to_json(const ObjectTable<Q>& queues) {
    json list = json::array();
    for (const auto& [number, queue] : queues) {
        json row = to_json(*queue);
        if (queue->hairpin) {
            row["hairpin_peer"] = peer_of(*queue).number;
            add_held(row, *queue);
        }
        if (queue->virtq) row["virtq_state"] = text_of(queue->virtq->status().state);
        list.push_back(std::move(row));
    }
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
