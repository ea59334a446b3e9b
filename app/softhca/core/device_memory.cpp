// SPDX-License-Identifier: BSD-3-Clause
// What becomes of objects whose memory the program has taken away.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>

namespace softhca::core {

bool Device::State::covers(const void* address) const {
    const auto works_on = [&](const auto& entry) { return entry.second->works_on(address); };
    return std::ranges::any_of(sqs, works_on) || std::ranges::any_of(rqs, works_on) ||
           std::ranges::any_of(cqs, works_on) || mkeys.covers(address);
}

/// A queue without its ring is looked at no more until it is reset.
template <class Q> bool Device::State::break_queues(std::vector<Q*>& active, const void* address) {
    bool any = false;
    std::erase_if(active, [&](Q* queue) {
        if (!queue->works_on(address)) return false;
        queue->fail();
        return any = true;
    });
    return any;
}

bool Device::State::break_cqs(const void* address) {
    bool any = false;
    for (const auto& [number, cq] : cqs) {
        if (cq->failed() || !cq->works_on(address)) continue;
        std::erase(event_cqs, cq.get());
        std::erase(block_cqs, cq.get());
        cq->fail();
        any = true;
    }
    return any;
}

void Device::State::lose_memory(const void* address) {
    // All of them: the same page may hold several.
    bool broken = break_cqs(address);
    broken |= break_queues(active_sqs, address);
    broken |= break_queues(active_rqs, address);
    const bool placing = placer.is_placing();
    receiver.abandon();
    // The packet that was under way from the wire is counted, and would only be counted again.
    if (placing && receiving) port.wire().pop();
    if (broken)
        placer.abandon();
    else if (placing)
        placer.fail_for_memory();
    else if (!receiving)
        sender.fail_for_memory();
}

} // namespace softhca::core
