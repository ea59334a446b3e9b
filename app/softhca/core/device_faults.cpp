// SPDX-License-Identifier: BSD-3-Clause
// Faults on request: what a device does when it, or one of its objects, breaks.
#include "app/softhca/core/device.hpp"
#include "app/softhca/core/device_state.hpp"

#include <thread>

namespace softhca::core {

Outcome<void> Device::inject_error(Number queue, CompletionError error) {
    const ControlLock lock(*state_);
    Queue* found = state_->sqs.find(queue);
    if (!found) found = state_->rqs.find(queue);
    if (!found) return tl::unexpected(Status::bad_resource);
    // Hairpin and virtio queues have no CQEs.
    if (!found->cq) return tl::unexpected(Status::unsupported);
    found->injected = error;
    return {};
}

Outcome<void> Device::inject_fatal(Number number) {
    const ControlLock lock(*state_);
    if (Sq* const sq = state_->sqs.find(number)) {
        if (sq->state == QueueState::reset) return tl::unexpected(Status::bad_state);
        sq->virtq ? sq->virtq->fail(VirtqFault::injected) : sq->fail();
    } else if (Rq* const rq = state_->rqs.find(number)) {
        if (rq->state == QueueState::reset) return tl::unexpected(Status::bad_state);
        rq->virtq ? rq->virtq->fail(VirtqFault::injected) : rq->fail();
    } else if (Cq* const cq = state_->cqs.find(number)) {
        cq->fail();
    } else {
        return tl::unexpected(Status::bad_resource);
    }
    return {};
}

Outcome<void> Device::inject_overrun(Number cqn) {
    const ControlLock lock(*state_);
    Cq* const cq = state_->cqs.find(cqn);
    if (!cq) return tl::unexpected(Status::bad_resource);
    cq->fill_up();
    return {};
}

void Device::stall(std::chrono::milliseconds duration) {
    const ControlLock lock(*state_);
    std::this_thread::sleep_for(duration);
}

void Device::inject_device_fatal() {
    const ControlLock lock(*state_);
    if (state_->dead) return;
    state_->dead = true;
    state_->port.tell_listeners(AsyncEvent::device_fatal);
}

} // namespace softhca::core
