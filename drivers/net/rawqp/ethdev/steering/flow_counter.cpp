// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/ethdev/steering/flow_counter.hpp"

#include "common/verbs/errno_text.hpp"

#include <cerrno>

namespace rawqp {

ibv_counters* FlowCounter::verbs() {
    if (verbs_) return verbs_.get();
    ibv_counters_init_attr init{};
    verbs::Handle<ibv_counters> made(ibv_create_counters(context_, &init),
                                     {ibv_destroy_counters, "flow counters"});
    int error = made ? 0 : errno;
    // Indices 0 and 1 of what ibv_read_counters fills.
    for (const auto what : {IBV_COUNTER_PACKETS, IBV_COUNTER_BYTES}) {
        ibv_counter_attach_attr attach{};
        attach.counter_desc = what;
        attach.index = what;
        if (error == 0) error = ibv_attach_counters_point_flow(made.get(), &attach, nullptr);
    }
    if (error == 0) verbs_ = std::move(made);
    errno = error;
    return verbs_.get();
}

const DevxObject* FlowCounter::devx() {
    if (!object_) object_ = devx_.make(prm::AllocFlowCounterIn{}, "flow counter");
    return object_ ? &object_ : nullptr;
}

bool FlowCounter::prepare(const FlowCounter& other) {
    return (!other.verbs_ || verbs() != nullptr) && (!other.object_ || devx() != nullptr);
}

bool FlowCounter::renew() {
    const bool by_verbs = verbs_ != nullptr;
    verbs_ = {}; // verbs cannot read a counter without a flow: a new one starts at zero
    if (by_verbs && verbs() == nullptr) return false;
    seen_ = noted_ = {};
    errno = read_devx(seen_);
    return errno == 0;
}

/// 0 or an errno.
int FlowCounter::read_devx(FlowCounts& counts) const {
    if (!object_) return 0;
    prm::QueryFlowCounterIn in{};
    prm::QueryFlowCounterOut out;
    in.counter = object_.number;
    const int error = devx_.query(object_.handle.get(), in, out);
    counts.packets += out.packets;
    counts.bytes += out.bytes;
    return error;
}

Result<FlowCounts> FlowCounter::read() {
    auto counts = total();
    if (!counts) return counts;
    return FlowCounts{counts->packets - seen_.packets, counts->bytes - seen_.bytes};
}

Result<FlowCounts> FlowCounter::total() {
    uint64_t values[2] = {};
    int error = verbs_ ? ibv_read_counters(verbs_.get(), values, 2, 0) : 0;
    if (verbs_ && error == 0) noted_ = {values[IBV_COUNTER_PACKETS], values[IBV_COUNTER_BYTES]};
    // The kernel does not read a counter in which no flow counts: on a stopped port, for an
    // indirect count without rules, or for a rule that verbs refused and mlx5dv then took.
    if (error == EINVAL) error = 0;
    FlowCounts counts = noted_;
    if (error == 0) error = read_devx(counts);
    if (error != 0)
        return fail(error, "cannot read the counters of a rule: {}",
                    verbs::errno_text(error, verbs::Attempt::steer));
    return counts;
}

} // namespace rawqp
