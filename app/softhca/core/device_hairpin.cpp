// SPDX-License-Identifier: BSD-3-Clause
// Hairpin queues: creation and pairing.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>
#include <utility>

namespace softhca::core {
namespace {

bool is_valid(const HairpinSize& size) {
    return size.log_bytes >= Limits::kLogMinHairpinBytes &&
           size.log_bytes <= Limits::kLogMaxHairpinBytes &&
           size.log_packets <= Limits::kLogMaxHairpinPackets;
}

/// A queue without a doorbell, if there may be one more.
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
    (*rq)->hairpin = std::make_shared<HairpinBuffer>(attr.size, state_->end_of((*rq)->number));
    (*rq)->q_counter = &state_->own_q_counter;
    (*rq)->failed = &state_->failed_rqs;
    (*rq)->hold_when_empty = attr.delay_drop;
    state_->delay_drop.rqs += attr.delay_drop;
    const Number number = (*rq)->number;
    state_->rqs.insert(number, std::move(*rq));
    return number;
}

Outcome<std::shared_ptr<HairpinBuffer>> Device::buffer_of(Number rqn) const {
    if (rqn == 0) return refuse(Status::bad_resource); // most queues name none: not worth the lock
    const ControlLock lock(*state_);
    const Rq* const rq = state_->rqs.find(rqn);
    if (!rq) return refuse(Status::bad_resource);
    if (!rq->hairpin) return refuse(Status::bad_parameter);
    return rq->hairpin;
}

Outcome<HairpinSize> Device::size_for(const HairpinEnd& rq, Number sqn) const {
    if (sqn == 0) return refuse(Status::bad_resource); // likewise
    const ControlLock lock(*state_);
    const Sq* const sq = state_->sqs.find(sqn);
    if (!sq) return refuse(Status::bad_resource);
    if (!sq->hairpin) return refuse(Status::bad_parameter);
    if (const HairpinEnd peer = peer_of(*sq); peer && peer != rq) return refuse(Status::busy);
    return *sq->hairpin;
}

Outcome<void> Device::State::change_peer(Sq& sq, QueueState state, const SqPeer& peer) {
    if (!sq.hairpin) return {};
    sq.rest = Sq::Rest::none; // it is put on the list, or is in reset
    if (state == QueueState::reset && sq.source) std::exchange(sq.source, nullptr)->detach();
    if (!begins(sq, state)) return {};
    if (!peer) return refuse(peer.error());
    if (!(*peer)->attach(end_of(sq.number), hairpin_wakes)) return refuse(Status::busy);
    sq.source = *peer;
    return {};
}

Outcome<void> Device::State::change_peer(Rq& rq, QueueState state, const HairpinEnd& sq,
                                         const Outcome<HairpinSize>& sq_size) {
    if (!rq.hairpin) return {};
    if (state == QueueState::reset) port.counters.drop_tx_hairpin += rq.hairpin->drop();
    if (!begins(rq, state)) return {};
    if (!sq_size) return refuse(sq_size.error());
    rq.hairpin->name(sq, *sq_size);
    return {};
}

size_t Device::State::send_hairpins(size_t budget) {
    hairpin_wakes->take([this](Number sqn) {
        Sq* const sq = sqs.find(sqn);
        if (!sq || !sq->hairpin || sq->rest == Sq::Rest::none)
            return; // gone, or not waiting any more
        sq->rest = Sq::Rest::none;
        active_hairpins.push_back(sq);
    });
    size_t work = 0;
    for (size_t i = 0; i < active_hairpins.size();) {
        Sq& sq = *active_hairpins[i];
        work += data_path->send_hairpin(sq, budget);
        if (!sq.source || !sq.source->waits()) {
            i++;
            continue;
        }
        // A packet that has arrived since then has woken it: it is in hairpin_wakes by now.
        sq.rest = Sq::Rest::until_rung;
        active_hairpins[i] = active_hairpins.back();
        active_hairpins.pop_back();
    }
    return work;
}

void Device::State::leave_peer(Sq& sq) {
    if (sq.source) std::exchange(sq.source, nullptr)->forget();
}

void Device::State::leave_peer(const Rq& rq) {
    if (rq.hairpin) port.counters.drop_tx_hairpin += rq.hairpin->close();
}

} // namespace softhca::core
