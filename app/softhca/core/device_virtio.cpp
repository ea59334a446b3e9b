// SPDX-License-Identifier: BSD-3-Clause
// Virtio queues: created, started and stopped. To steering they are RQs, to rules for sent packets
// they are SQs.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>
#include <bit>

namespace softhca::core {
namespace {

constexpr size_t kChainsOfQueue = kChainsOfRound / 8; ///< share of a round that one queue may have

/// Alignment that the specification requires of the parts of a ring.
bool is_aligned(const VirtqAttr& attr) {
    return attr.descriptors % 16 == 0 && attr.available % 2 == 0 && attr.used % 4 == 0;
}

/// One is an SQ or an RQ.
struct Found {
    Sq* sq = nullptr;
    Rq* rq = nullptr;
    Virtq* virtq = nullptr; ///< null: there is no virtio queue of that number
};
Found find(const Device::State& state, Number number) {
    if (Sq* const sq = state.sqs.find(number)) return {.sq = sq, .virtq = sq->virtq.get()};
    Rq* const rq = state.rqs.find(number);
    return {.rq = rq, .virtq = rq ? rq->virtq.get() : nullptr};
}

size_t count_virtqs(const Device::State& state) {
    const auto is_one = [](const auto& entry) { return bool(entry.second->virtq); };
    return static_cast<size_t>(std::ranges::count_if(state.sqs, is_one) +
                               std::ranges::count_if(state.rqs, is_one));
}

template <class Q>
std::unique_ptr<Q> make_queue(Device::State& state, const VirtqAttr& attr, Rq* events) {
    auto queue = std::make_unique<Q>();
    VirtqCounter* const counter = state.virtq_counters.find(attr.counters);
    queue->doorbell = Doorbell(state.no_bell);
    queue->number = state.new_number();
    queue->pd = attr.pd;
    queue->mask = static_cast<uint16_t>(attr.entries - 1);
    queue->listener = attr.listener;
    queue->cookie = attr.cookie;
    queue->virtq =
        std::make_shared<Virtq>(attr, state.mkeys, *queue, events, counter, state.owing_virtqs);
    if (events) events->users++;
    if (counter) counter->users++;
    state.pds.find(attr.pd)->users++;
    return queue;
}

} // namespace

Outcome<Number> Device::create_virtq(const VirtqAttr& attr) {
    const ControlLock lock(*state_);
    if (count_virtqs(*state_) >> Limits::kLogMaxVirtqs != 0) return refuse(Status::limit);
    if (state_->sqs.is_full(Limits::kLogMaxSqs) || state_->rqs.is_full(Limits::kLogMaxRqs))
        return refuse(Status::limit);
    if (attr.entries >> Limits::kLogMaxVirtqEntries > 1) return refuse(Status::limit);
    if (!std::has_single_bit(attr.entries) || !is_aligned(attr))
        return refuse(Status::bad_parameter);
    Rq* const events = state_->rqs.find(attr.events);
    if (!state_->pds.find(attr.pd) || (attr.events != 0 && (!events || !events->cq)) ||
        (attr.counters != 0 && !state_->virtq_counters.find(attr.counters)))
        return refuse(Status::bad_resource);
    if (attr.sends) {
        auto sq = make_queue<Sq>(*state_, attr, events);
        sq->transport_domain = attr.transport_domain;
        const Number number = sq->number;
        state_->sqs.insert(number, std::move(sq));
        return number;
    }
    auto rq = make_queue<Rq>(*state_, attr, events);
    rq->q_counter = &state_->own_q_counter;
    const Number number = rq->number;
    state_->rqs.insert(number, std::move(rq));
    return number;
}

Outcome<void> Device::modify_virtq(Number number, VirtqState to) {
    const ControlLock lock(*state_);
    const auto [sq, rq, virtq] = find(*state_, number);
    if (!virtq) return refuse(Status::bad_resource);
    const VirtqState from = virtq->status().state;
    const bool starts = from == VirtqState::init && to == VirtqState::ready;
    const bool stops = from == VirtqState::ready && to == VirtqState::suspended;
    if (!starts && !stops) return refuse(Status::bad_state);
    if (stops && sq && !state_->end_chain(*sq)) return refuse(Status::bad_state); // it has failed
    virtq->enter(to);
    if (stops) return {}; // it still owes events
    state_->active_virtqs.push_back(virtq);
    if (sq) state_->chain_schedule.start(*sq);
    return {};
}

size_t Device::State::send_chains(size_t looks) {
    return chain_schedule.round(looks, kChainsOfRound, [this](Sq& sq) {
        return data_path->send_chains(sq, kChainsOfQueue);
    });
}

bool Device::State::end_chain(Sq& sq) {
    doing = DataPath::Work::sending;
    port.read_clock();
    if (!dead) end_left_work(run_guarded(*this, [&] { data_path->end_chain(sq); }));
    return sq.virtq->serves();
}

void Device::State::tell_of_used_chains() {
    for (size_t i = 0; i < owing_virtqs.size();) {
        Virtq& virtq = *owing_virtqs[i];
        if (Rq* const rq = virtq.wants_event(); rq && !data_path->receive_message(*rq)) {
            i++; // it waits for a WQE
            continue;
        }
        virtq.told();
        owing_virtqs[i] = owing_virtqs.back();
        owing_virtqs.pop_back();
    }
}

Outcome<VirtqStatus> Device::query_virtq(Number number) const {
    const ControlLock lock(*state_);
    const Virtq* const virtq = find(*state_, number).virtq;
    if (!virtq) return refuse(Status::bad_resource);
    return virtq->status();
}

Outcome<void> Device::destroy_virtq(Number number) {
    const ControlLock lock(*state_);
    const auto [sq, rq, virtq] = find(*state_, number);
    if (!virtq) return refuse(Status::bad_resource);
    const Queue& queue = sq ? static_cast<const Queue&>(*sq) : *rq;
    if (queue.users != 0) return refuse(Status::busy);
    std::erase(state_->active_virtqs, virtq);
    std::erase(state_->owing_virtqs, virtq);
    if (virtq->events()) virtq->events()->users--;
    if (virtq->counter()) virtq->counter()->users--;
    state_->pds.find(queue.pd)->users--;
    if (sq) {
        state_->chain_schedule.stop(*sq);
        state_->data_path->forget(*sq);
        state_->sqs.erase(number);
    } else {
        state_->rqs.erase(number);
    }
    return {};
}

Outcome<Number> Device::create_virtq_counters() {
    const ControlLock lock(*state_);
    if (state_->virtq_counters.is_full(Limits::kLogMaxVirtqCounters)) return refuse(Status::limit);
    const Number number = state_->new_number();
    state_->virtq_counters.insert(number, std::make_unique<VirtqCounter>());
    return number;
}

Outcome<VirtqCounts> Device::query_virtq_counters(Number counters) const {
    const ControlLock lock(*state_);
    const VirtqCounter* const found = state_->virtq_counters.find(counters);
    if (!found) return refuse(Status::bad_resource);
    return found->counts;
}

Outcome<void> Device::destroy_virtq_counters(Number counters) {
    const ControlLock lock(*state_);
    const VirtqCounter* const found = state_->virtq_counters.find(counters);
    if (!found) return refuse(Status::bad_resource);
    if (found->users != 0) return refuse(Status::busy);
    state_->virtq_counters.erase(counters);
    return {};
}

} // namespace softhca::core
