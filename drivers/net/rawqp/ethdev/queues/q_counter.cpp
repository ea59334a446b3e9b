// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/queues/q_counter.hpp"

#include <utility>

namespace rawqp {

QCounter::QCounter(const verbs::Api& api, ibv_context* context)
    : devx_(api, context), object_(devx_.make(prm::AllocQCounterIn{}, "Q counter")) {}

int QCounter::bind(ibv_wq* wq) const {
    prm::ModifyRqIn in{};
    in.state_and_rq = prm::kReady << 28 | wq->wq_num;
    in.state = prm::kReady << 20;
    in.fields = prm::kCounterSetId;
    in.counter_set_id = object_.number << 24;
    return devx_.modify(wq, in);
}

uint32_t QCounter::take() {
    prm::QueryQCounterIn in{};
    prm::QueryQCounterOut out;
    in.counter = object_.number;
    if (!object_ || devx_.query(object_.handle.get(), in, out) != 0) return 0;
    const uint32_t now = out.out_of_buffer;
    return now - std::exchange(seen_, now);
}

} // namespace rawqp
