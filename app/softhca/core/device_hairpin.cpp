// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues: made, and paired with each other.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>

namespace softhca::core {
namespace {

bool is_valid(const HairpinSize& size) {
    return size.log_bytes >= Limits::kLogMinHairpinBytes &&
           size.log_bytes <= Limits::kLogMaxHairpinBytes &&
           size.log_packets <= Limits::kLogMaxHairpinPackets;
}

/// A queue that nobody rings, if there may be one more.
template <class Q>
Outcome<std::unique_ptr<Q>> make_hairpin(Device::State& state, const ObjectTable<Q>& queues,
                                         uint8_t log_most, const HairpinAttr& attr) {
    const auto hairpins = std::ranges::count_if(
        queues, [](const auto& entry) { return bool(entry.second->hairpin); });
    if (queues.is_full(log_most) || hairpins >> Limits::kLogMaxHairpins != 0)
        return refuse(Status::limit);
    if (!is_valid(attr.size)) return refuse(Status::bad_parameter);
    auto queue = std::make_unique<Q>();
    queue->doorbell = Doorbell(state.no_bell);
    queue->number = state.new_number();
    queue->user_index = attr.user_index;
    queue->listener = attr.listener;
    queue->cookie = attr.cookie;
    return queue;
}

/// The queue that `queue` may have as its peer: a hairpin that names no other one.
template <class Peer, class Q>
Outcome<Peer*> find_peer(const ObjectTable<Peer>& peers, Number number, const Q& queue) {
    Peer* const peer = peers.find(number);
    if (!peer) return refuse(Status::bad_resource);
    if (!peer->hairpin) return refuse(Status::bad_parameter);
    if (peer->peer && peer->peer != &queue) return refuse(Status::busy);
    return peer;
}

bool begins(const Queue& queue, QueueState state) {
    return queue.state == QueueState::reset && state == QueueState::ready;
}

} // namespace

Outcome<Number> Device::create_hairpin_sq(const HairpinAttr& attr) {
    const ControlLock lock(*state_);
    auto sq = make_hairpin(*state_, state_->sqs, Limits::kLogMaxSqs, attr);
    if (!sq) return refuse(sq.error());
    (*sq)->hairpin = attr.size;
    (*sq)->transport_domain = attr.transport_domain;
    const Number number = (*sq)->number;
    state_->sqs.insert(number, std::move(*sq));
    return number;
}

Outcome<Number> Device::create_hairpin_rq(const HairpinAttr& attr) {
    const ControlLock lock(*state_);
    auto rq = make_hairpin(*state_, state_->rqs, Limits::kLogMaxRqs, attr);
    if (!rq) return refuse(rq.error());
    (*rq)->hairpin = std::make_shared<HairpinBuffer>(attr.size);
    (*rq)->q_counter = &state_->own_q_counter;
    (*rq)->hold_when_empty = attr.delay_drop;
    state_->delay_drop.rqs += attr.delay_drop;
    const Number number = (*rq)->number;
    state_->rqs.insert(number, std::move(*rq));
    return number;
}

Outcome<void> Device::State::change_peer(Sq& sq, QueueState state, Number peer) {
    if (!sq.hairpin) return {};
    if (state == QueueState::reset) sq.peer = nullptr;
    if (!begins(sq, state)) return {};
    const auto rq = find_peer(rqs, peer, sq);
    if (!rq) return refuse(rq.error());
    sq.peer = *rq;
    return {};
}

Outcome<void> Device::State::change_peer(Rq& rq, QueueState state, Number peer) {
    if (!rq.hairpin) return {};
    if (state == QueueState::reset) {
        drop_held(rq);
        rq.peer = nullptr;
    }
    if (!begins(rq, state)) return {};
    const auto sq = find_peer(sqs, peer, rq);
    if (!sq) return refuse(sq.error());
    rq.peer = *sq;
    rq.hairpin->limit(*(*sq)->hairpin);
    return {};
}

void Device::State::drop_held(Rq& rq) {
    port.counters.drop_tx_hairpin += rq.hairpin->packets();
    rq.hairpin->clear();
    if (rq.peer) rq.peer->progress = {}; // of what is gone
}

void Device::State::leave_peer(const Sq& sq) {
    if (!sq.hairpin) return;
    for (const auto& [rqn, rq] : rqs)
        if (rq->peer == &sq) rq->peer = nullptr;
}

void Device::State::leave_peer(Rq& rq) {
    if (!rq.hairpin) return;
    drop_held(rq);
    for (const auto& [sqn, sq] : sqs)
        if (sq->peer == &rq) sq->peer = nullptr;
}

} // namespace softhca::core
