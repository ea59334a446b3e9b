// SPDX-License-Identifier: BSD-3-Clause
// Control calls about PDs, CQs and queues: validate, create, connect, destroy. Each takes the
// device lock.
#include "app/softhca/core/device.hpp"

#include "app/softhca/core/device_state.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace softhca::core {
namespace {

/// reset -> ready -> error -> reset; any state may go to error or to reset.
bool valid_transition(QueueState from, QueueState to) {
    return !(from == QueueState::error && to == QueueState::ready);
}

template <class Q> void rewind(Q& queue) {
    queue.consumer = queue.producer = 0;
    if constexpr (std::is_same_v<Q, Sq>) {
        queue.sent = 0;
        queue.enabled = 0;
        queue.progress.clear();
    } else {
        queue.next_stride = 0;
        queue.held_since = 0;
        queue.gave_up = false;
    }
    queue.doorbell.store(0);
}

/// `active` holds the queues that poll() has to look at.
template <class Q>
void change_state(const Device::State& device, Q& queue, QueueState state,
                  std::vector<Q*>& active) {
    if (state == QueueState::reset) {
        // A doorbell record that is gone needs no zero.
        std::ignore = run_guarded(device, [&] { rewind(queue); });
        std::erase(active, &queue);
        queue.broken = false;
    } else if (!queue.broken && std::ranges::find(active, &queue) == active.end()) {
        // Normally the queue leaves reset here; otherwise it is an SQ that failed there with its
        // RQ, or a hairpin SQ that waited to be woken.
        active.push_back(&queue);
    }
    queue.state = state;
}

template <class Q, class Attr>
std::unique_ptr<Q> make_queue(const Attr& attr, Number number, Cq& cq) {
    auto queue = std::make_unique<Q>();
    queue->ring = attr.ring;
    queue->doorbell = attr.doorbell;
    queue->cq = &cq;
    queue->pd = attr.pd;
    queue->number = number;
    queue->user_index = attr.user_index;
    queue->listener = attr.listener;
    queue->cookie = attr.cookie;
    cq.users++;
    return queue;
}

} // namespace

ControlLock::ControlLock(Device::State& state) : state_(state) {
    state_.control_waiting.fetch_add(1);
    state_.mutex.lock();
    state_.control_waiting.fetch_sub(1);
    state_.control_calls++;
}

Number Device::State::new_number() {
    do {
        last_number_ = last_number_ < Limits::kMaxNumber ? last_number_ + 1 : 0x40;
    } while (pds.find(last_number_) || cqs.find(last_number_) || sqs.find(last_number_) ||
             rqs.find(last_number_) || rqts.find(last_number_) || tirs.find(last_number_) ||
             flows.find(last_number_) || virtq_counters.find(last_number_));
    return last_number_;
}

Device::Device(DeviceConfig config, std::unique_ptr<wire::Wire> wire,
               std::unique_ptr<wire::Wire> kernel)
    : state_(std::make_unique<State>(std::move(config), std::move(wire), std::move(kernel))) {}
Device::~Device() = default;

// ---------------------------------------------------------------- PD and mkey

Outcome<Number> Device::alloc_pd() {
    const ControlLock lock(*state_);
    if (state_->pds.is_full(Limits::kLogMaxPds)) return refuse(Status::limit);
    const Number number = state_->new_number();
    state_->pds.insert(number, std::make_unique<Pd>());
    return number;
}

Outcome<void> Device::dealloc_pd(Number pd) {
    const ControlLock lock(*state_);
    const Pd* const found = state_->pds.find(pd);
    if (!found) return refuse(Status::bad_resource);
    if (found->users != 0) return refuse(Status::busy);
    state_->pds.erase(pd);
    return {};
}

// ---------------------------------------------------------------- CQ

Outcome<Number> Device::create_cq(const CqAttr& attr) {
    const ControlLock lock(*state_);
    if (state_->cqs.is_full(Limits::kLogMaxCqs)) return refuse(Status::limit);
    if (attr.log_entries > Limits::kLogMaxCqEntries) return refuse(Status::limit);
    if (!attr.doorbell || !state_->rings.fits(attr)) return refuse(Status::bad_parameter);
    const Number number = state_->new_number();
    Cq& cq = state_->cqs.insert(number, state_->rings.make_cq(number, attr));
    cq.set_visits(state_->cq_visits);
    return number;
}

Outcome<void> Device::destroy_cq(Number cqn) {
    const ControlLock lock(*state_);
    Cq* const cq = state_->cqs.find(cqn);
    if (!cq) return refuse(Status::bad_resource);
    if (cq->users != 0) return refuse(Status::busy);
    state_->cq_visits.forget(*cq);
    state_->cqs.erase(cqn);
    return {};
}

Outcome<void> Device::resize_cq(Number cqn, DmaArea ring, uint8_t log_entries, uint8_t cqe_size) {
    const ControlLock lock(*state_);
    Cq* const cq = state_->cqs.find(cqn);
    if (!cq) return refuse(Status::bad_resource);
    if (log_entries > Limits::kLogMaxCqEntries) return refuse(Status::limit);
    CqAttr attr;
    attr.ring = std::move(ring);
    attr.log_entries = log_entries;
    attr.cqe_size = cqe_size;
    if (!state_->rings.fits(attr)) return refuse(Status::bad_parameter);
    Outcome<void> resized = tl::unexpected(Status::bad_state);
    const void* const missing = // of the old ring, or of the doorbell record
        run_guarded(*state_, [&] { resized = cq->resize(attr.ring, log_entries, cqe_size); });
    state_->end_left_work(missing);
    return resized;
}

Outcome<void> Device::ignore_cq_overrun(Number cqn, bool ignore) {
    const ControlLock lock(*state_);
    Cq* const cq = state_->cqs.find(cqn);
    if (!cq) return refuse(Status::bad_resource);
    cq->ignore_overrun(ignore);
    return {};
}

// ---------------------------------------------------------------- SQ

void Device::State::release(const Queue& queue) {
    if (!queue.cq) return;
    queue.cq->users--;
    pds.find(queue.pd)->users--;
}

Outcome<Number> Device::create_sq(const SqAttr& attr) {
    const ControlLock lock(*state_);
    if (state_->sqs.is_full(Limits::kLogMaxSqs)) return refuse(Status::limit);
    Pd* const pd = state_->pds.find(attr.pd);
    Cq* const cq = state_->cqs.find(attr.cqn);
    if (!pd || !cq) return refuse(Status::bad_resource);
    if (attr.log_wqebbs > Limits::kLogMaxWqebbs) return refuse(Status::limit);
    if (!attr.doorbell || !state_->rings.fits(attr)) return refuse(Status::bad_parameter);
    const Number number = state_->new_number();
    auto sq = make_queue<Sq>(attr, number, *cq);
    sq->mask = static_cast<uint16_t>((1u << attr.log_wqebbs) - 1);
    sq->transport_domain = attr.transport_domain;
    sq->rc = attr.rc;
    sq->managed = attr.managed;
    sq->repeats = attr.repeats;
    sq->any_index = attr.any_index;
    sq->off_wire = attr.off_wire;
    sq->changes_keys = attr.changes_keys;
    sq->registers = attr.registers;
    pd->users++;
    if (const void* const record = sq->doorbell.record())
        state_->sqs_by_record[{record, number}] = sq.get();
    state_->sqs.insert(number, std::move(sq));
    return number;
}

Outcome<void> Device::modify_sq(Number sqn, QueueState state, const HairpinPeer& peer) {
    // First, so that no thread holds the locks of two devices.
    const auto source = (peer.device ? *peer.device : *this).buffer_of(peer.number);
    const ControlLock lock(*state_);
    Sq* const sq = state_->sqs.find(sqn);
    if (!sq) return refuse(Status::bad_resource);
    if (!valid_transition(sq->state, state)) return refuse(Status::bad_state);
    if (const auto changed = state_->change_peer(*sq, state, source); !changed) return changed;
    change_state(*state_, *sq, state, state_->active(*sq));
    if (sq->hairpin) return {};
    if (state == QueueState::reset)
        state_->schedule(*sq).stop(*sq);
    else if (!sq->broken)
        state_->schedule(*sq).start(*sq);
    return {};
}

Outcome<void> Device::pace_sq(Number sqn, uint32_t kbps) {
    const ControlLock lock(*state_);
    Sq* const sq = state_->sqs.find(sqn);
    if (!sq) return refuse(Status::bad_resource);
    if (kbps > Limits::kMaxRateKbps) return refuse(Status::bad_parameter);
    sq->rate_kbps = kbps;
    sq->pace = {};
    state_->port.read_clock();
    sq->paced_until = state_->port.now();
    return {};
}

Outcome<void> Device::pace_sq_requests(Number sqn, uint32_t per_second) {
    const ControlLock lock(*state_);
    Sq* const sq = state_->sqs.find(sqn);
    if (!sq) return refuse(Status::bad_resource);
    if (per_second > Limits::kMaxRequestRate || sq->hairpin) return refuse(Status::bad_parameter);
    sq->rate_kbps = 0;
    state_->port.read_clock();
    sq->pace = RequestPace(per_second, state_->port.now());
    return {};
}

Outcome<QueueState> Device::query_sq(Number sqn) const {
    const ControlLock lock(*state_);
    const Sq* const sq = state_->sqs.find(sqn);
    if (!sq) return refuse(Status::bad_resource);
    return sq->state;
}

Outcome<void> Device::destroy_sq(Number sqn) {
    const ControlLock lock(*state_);
    Sq* const sq = state_->sqs.find(sqn);
    if (!sq) return refuse(Status::bad_resource);
    std::erase(state_->active(*sq), sq);
    state_->schedule(*sq).stop(*sq);
    state_->data_path->forget(*sq);
    state_->sqs_by_record.erase({sq->doorbell.record(), sqn});
    for (Rq* const rq : sq->partners)
        rq->partner = nullptr;
    state_->leave_peer(*sq);
    state_->release(*sq);
    state_->sqs.erase(sqn);
    return {};
}

// ---------------------------------------------------------------- RQ

Outcome<Number> Device::create_rq(const RqAttr& attr) {
    const ControlLock lock(*state_);
    if (state_->rqs.is_full(Limits::kLogMaxRqs)) return refuse(Status::limit);
    Pd* const pd = state_->pds.find(attr.pd);
    Cq* const cq = state_->cqs.find(attr.cqn);
    if (!pd || !cq) return refuse(Status::bad_resource);
    if (attr.log_wqes > Limits::kLogMaxRqWqes) return refuse(Status::limit);
    if (!attr.doorbell || !state_->rings.fits(attr)) return refuse(Status::bad_parameter);
    const Number number = state_->new_number();
    auto rq = make_queue<Rq>(attr, number, *cq);
    rq->mask = static_cast<uint16_t>((1u << attr.log_wqes) - 1);
    rq->log_wqe_bytes = attr.log_wqe_bytes;
    rq->vlan_strip = attr.vlan_strip;
    rq->scatter_fcs = attr.scatter_fcs;
    rq->q_counter = &state_->own_q_counter;
    rq->failed = &state_->failed_rqs;
    rq->hold_when_empty = attr.delay_drop;
    rq->striding = attr.striding.has_value();
    if (attr.striding) rq->strides = *attr.striding;
    rq->partner = state_->sq_of_record(rq->doorbell.record());
    if (rq->partner) rq->partner->partners.push_back(rq.get());
    state_->delay_drop.rqs += attr.delay_drop;
    pd->users++;
    state_->rqs.insert(number, std::move(rq));
    return number;
}

Outcome<void> Device::modify_rq(Number rqn, QueueState state, const HairpinPeer& peer) {
    const Device& other = peer.device ? *peer.device : *this;
    const auto size = other.size_for(state_->end_of(rqn), peer.number); // as in modify_sq()
    const ControlLock lock(*state_);
    Rq* const rq = state_->rqs.find(rqn);
    if (!rq) return refuse(Status::bad_resource);
    if (!valid_transition(rq->state, state)) return refuse(Status::bad_state);
    if (const auto changed =
            state_->change_peer(*rq, state, other.state_->end_of(peer.number), size);
        !changed)
        return changed;
    if (state != QueueState::ready)
        state_->lro_sessions.abandon(*rq, state_->port.counters.drop_queue_not_ready);
    std::erase(state_->failed_rqs, rq);
    change_state(*state_, *rq, state, state_->active_rqs);
    if (state == QueueState::error && !rq->broken) state_->failed_rqs.push_back(rq);
    return {};
}

Outcome<void> Device::modify_rq_vlan_strip(Number rqn, bool strip) {
    const ControlLock lock(*state_);
    Rq* const rq = state_->rqs.find(rqn);
    if (!rq) return refuse(Status::bad_resource);
    rq->vlan_strip = strip;
    return {};
}

Outcome<void> Device::modify_rq_scatter_fcs(Number rqn, bool scatter) {
    const ControlLock lock(*state_);
    Rq* const rq = state_->rqs.find(rqn);
    if (!rq) return refuse(Status::bad_resource);
    rq->scatter_fcs = scatter;
    return {};
}

Outcome<QueueState> Device::query_rq(Number rqn) const {
    const ControlLock lock(*state_);
    const Rq* const rq = state_->rqs.find(rqn);
    if (!rq) return refuse(Status::bad_resource);
    return rq->state;
}

Outcome<void> Device::destroy_rq(Number rqn) {
    const ControlLock lock(*state_);
    Rq* const rq = state_->rqs.find(rqn);
    if (!rq) return refuse(Status::bad_resource);
    if (rq->users != 0) return refuse(Status::busy);
    state_->lro_sessions.abandon(*rq, state_->port.counters.drop_queue_not_ready);
    std::erase(state_->active_rqs, rq);
    std::erase(state_->failed_rqs, rq);
    if (rq->partner) std::erase(rq->partner->partners, rq);
    state_->delay_drop.rqs -= rq->hold_when_empty;
    state_->leave_peer(*rq);
    state_->release(*rq);
    state_->rqs.erase(rqn);
    return {};
}

} // namespace softhca::core
