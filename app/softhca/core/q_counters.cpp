// SPDX-License-Identifier: BSD-3-Clause
// Q counters: which RQs have dropped packets.
#include "app/softhca/core/q_counters.hpp"

#include "app/softhca/core/device_state.hpp"

#include <utility>

namespace softhca::core {
namespace {

/// By number; null if there is none.
QCounter* find(Device::State& state, Number counter) {
    return counter <= kOwnQCounter ? &state.own_q_counter : state.q_counters.find(counter);
}

} // namespace

Outcome<Number> Device::create_q_counter() {
    const ControlLock lock(*state_);
    Number number = kOwnQCounter + 1;
    while (state_->q_counters.find(number))
        number++;
    if (number > Limits::kMaxQCounters) return refuse(Status::limit);
    state_->q_counters.insert(number, std::make_unique<QCounter>());
    return number;
}

Outcome<void> Device::destroy_q_counter(Number counter) {
    const ControlLock lock(*state_);
    const QCounter* const gone = state_->q_counters.find(counter);
    if (!gone) return refuse(Status::bad_resource);
    for (const auto& [rqn, rq] : state_->rqs)
        if (rq->q_counter == gone) rq->q_counter = &state_->own_q_counter;
    state_->q_counters.erase(counter);
    return {};
}

Outcome<void> Device::bind_q_counter(Number rqn, Number counter) {
    const ControlLock lock(*state_);
    Rq* const rq = state_->rqs.find(rqn);
    QCounter* const wanted = find(*state_, counter);
    if (!rq || !wanted) return refuse(Status::bad_resource);
    rq->q_counter = wanted;
    return {};
}

Outcome<uint64_t> Device::query_q_counter(Number counter, bool clear) {
    const ControlLock lock(*state_);
    QCounter* const asked = find(*state_, counter);
    if (!asked) return refuse(Status::bad_resource);
    return clear ? std::exchange(asked->out_of_buffer, 0) : asked->out_of_buffer;
}

} // namespace softhca::core
