// SPDX-License-Identifier: BSD-3-Clause
// The members of Placer for virtio queues, for the file that instantiates it for a ring format.
#pragma once

#include "app/softhca/core/place_impl.hpp"

namespace softhca::core {

template <Rings R, class W> void Placer<R, W>::put_into_chain(Rq& rq, const Frame& frame) {
    Virtq& virtq = *rq.virtq;
    if (!virtq.has_chain()) {
        count_out_of_buffer(rq);
        watch_.no_room(rq);
        return;
    }
    const bool sound = virtq.attr().checksums && frame.verify(frame.headers()).l4_ok;
    const Virtq::Placed placed = virtq.scatter(frame.pieces(), frame.bytes(), sound);
    chains_ += virtq.chain_descriptors();
    if (placed != Virtq::Placed::whole) {
        port_.counters.drop_rx_error++;
        watch_.misplaced(rq);
        return;
    }
    watch_.chained(rq, frame.bytes());
    rq.counters.wqes++;
    rq.counters.packets++;
    rq.counters.bytes += frame.bytes();
    port_.counters.delivered++;
}

template <Rings R, class W> bool Placer<R, W>::take_message(Rq& rq) {
    if (rq.state != QueueState::ready) return true; // nobody is there to be told
    if (rq.pending() == 0) read_doorbell(rq);
    if (rq.pending() == 0) return false;
    leave_request(rq, Ring::complete_message(rq, port_.now()));
    return true;
}

} // namespace softhca::core
