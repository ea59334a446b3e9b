// SPDX-License-Identifier: BSD-3-Clause
// Control calls: validate, create, connect, destroy. Each takes the device lock.
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

// ---------------------------------------------------------------- RQT and TIR

namespace {

Outcome<std::vector<Rq*>> find_rqs(const ObjectTable<Rq>& rqs, std::span<const Number> numbers) {
    if (numbers.size() > Limits::kMaxRqtSize) return refuse(Status::limit);
    if (!std::has_single_bit(numbers.size())) return refuse(Status::bad_parameter);
    std::vector<Rq*> found;
    found.reserve(numbers.size());
    for (const Number number : numbers) {
        found.push_back(rqs.find(number));
        if (!found.back()) return refuse(Status::bad_resource);
    }
    return found;
}

void replace_entries(Rqt& rqt, std::vector<Rq*> entries) {
    for (Rq* const rq : entries)
        rq->users++;
    for (Rq* const rq : rqt.entries)
        rq->users--;
    rqt.entries = std::move(entries);
}

} // namespace

Outcome<Number> Device::create_rqt(std::span<const Number> rqns) {
    const ControlLock lock(*state_);
    if (state_->rqts.is_full(Limits::kLogMaxRqts)) return refuse(Status::limit);
    auto entries = find_rqs(state_->rqs, rqns);
    if (!entries) return refuse(entries.error());
    const Number number = state_->new_number();
    Rqt& rqt = state_->rqts.insert(number, std::make_unique<Rqt>());
    rqt.number = number;
    replace_entries(rqt, std::move(*entries));
    return number;
}

Outcome<void> Device::modify_rqt(Number rqt, std::span<const Number> rqns) {
    const ControlLock lock(*state_);
    Rqt* const found = state_->rqts.find(rqt);
    if (!found) return refuse(Status::bad_resource);
    auto entries = find_rqs(state_->rqs, rqns);
    if (!entries) return refuse(entries.error());
    replace_entries(*found, std::move(*entries));
    return {};
}

Outcome<void> Device::destroy_rqt(Number rqt) {
    const ControlLock lock(*state_);
    Rqt* const found = state_->rqts.find(rqt);
    if (!found) return refuse(Status::bad_resource);
    if (found->users != 0) return refuse(Status::busy);
    replace_entries(*found, {});
    state_->rqts.erase(rqt);
    return {};
}

namespace {

/// Fills in a TIR; the objects that it refers to count it as a user.
Outcome<void> connect_tir(Device::State& state, Tir& tir, const TirAttr& attr) {
    if ((attr.rqn != 0) == (attr.rqt != 0)) return refuse(Status::bad_parameter);
    Rq* const rq = state.rqs.find(attr.rqn);
    Rqt* const rqt = state.rqts.find(attr.rqt);
    if (!rq && !rqt) return refuse(Status::bad_resource);
    tir.rq = rq;
    tir.rqt = rqt;
    tir.fields = attr.fields;
    tir.tunnels = attr.tunnels;
    tir.hash_inner = attr.hash_inner;
    tir.symmetric = attr.symmetric;
    tir.xor8 = attr.xor8;
    tir.transport_domain = attr.transport_domain;
    tir.self_loopback = attr.self_loopback;
    tir.lro = attr.lro;
    tir.toeplitz = nullptr;
    if (attr.fields.any()) {
        // A TIR that was modified may have left its former key behind.
        std::erase_if(state.hash_keys, [](const auto& key) { return key.second.expired(); });
        auto& shared = state.hash_keys[attr.toeplitz_key];
        tir.toeplitz = shared.lock();
        if (!tir.toeplitz)
            shared = tir.toeplitz = std::make_shared<const net::Toeplitz>(attr.toeplitz_key);
    }
    if (rq)
        rq->users++;
    else
        rqt->users++;
    return {};
}

void disconnect_tir(const Tir& tir) {
    if (tir.rq)
        tir.rq->users--;
    else
        tir.rqt->users--;
}

} // namespace

Outcome<Number> Device::create_tir(const TirAttr& attr) {
    const ControlLock lock(*state_);
    if (state_->tirs.is_full(Limits::kLogMaxTirs)) return refuse(Status::limit);
    auto tir = std::make_unique<Tir>();
    if (const auto connected = connect_tir(*state_, *tir, attr); !connected)
        return refuse(connected.error());
    const Number number = state_->new_number();
    tir->number = number;
    state_->tirs.insert(number, std::move(tir));
    return number;
}

Outcome<void> Device::modify_tir(Number tirn, const TirAttr& attr) {
    const ControlLock lock(*state_);
    Tir* const tir = state_->tirs.find(tirn);
    if (!tir) return refuse(Status::bad_resource);
    const Tir before = *tir;
    if (const auto connected = connect_tir(*state_, *tir, attr); !connected) return connected;
    disconnect_tir(before);
    return {};
}

Outcome<void> Device::destroy_tir(Number tirn) {
    const ControlLock lock(*state_);
    const Tir* const tir = state_->tirs.find(tirn);
    if (!tir) return refuse(Status::bad_resource);
    if (tir->users != 0) return refuse(Status::busy);
    disconnect_tir(*tir);
    state_->tirs.erase(tirn);
    std::erase_if(state_->hash_keys, [](const auto& key) { return key.second.expired(); });
    return {};
}

// ---------------------------------------------------------------- flows

Outcome<Number> Device::create_flow(const FlowAttr& attr) {
    const ControlLock lock(*state_);
    const bool sends = attr.domain == FlowDomain::egress;
    const bool leads = !attr.tirs.empty() || !attr.tables.empty();
    if (attr.priority > Limits::kMulticastPriority || (sends && !attr.tirs.empty()) ||
        (sends ? attr.drop && leads : attr.drop + leads + attr.default_miss != 1) ||
        (attr.pass_on && (attr.drop || attr.default_miss)) ||
        ((attr.pass_on || attr.default_miss) && attr.domain != FlowDomain::bypass) ||
        attr.tag.value_or(0) > Limits::kMaxFlowTag)
        return refuse(Status::bad_parameter);
    FlowTables& tables = state_->flow_tables;
    auto flow = std::make_unique<Flow>();
    flow->domain = attr.domain;
    flow->priority = attr.priority;
    flow->mask = attr.mask;
    flow->value = KeyMask(attr.mask).apply(attr.value);
    flow->drop = attr.drop;
    flow->pass_on = attr.pass_on;
    flow->default_miss = attr.default_miss;
    flow->send = sends && !attr.drop && !leads;
    flow->tag = attr.tag;
    for (const Number number : attr.tirs) {
        flow->tirs.push_back(state_->tirs.find(number));
        if (!flow->tirs.back()) return refuse(Status::bad_resource);
    }
    for (const Number number : attr.tables) {
        flow->tables.push_back(tables.find_table(number));
        if (!flow->tables.back()) return refuse(Status::bad_resource);
        if (flow->tables.back()->sends != sends || flow->tables.back()->level <= attr.priority)
            return refuse(Status::bad_parameter);
    }
    for (const Number number : attr.counters) {
        flow->counters.push_back(tables.find_counter(number));
        if (!flow->counters.back()) return refuse(Status::bad_resource);
    }
    const auto rewrite = tables.find_rewrite(attr.rewrite, sends);
    if (!rewrite) return refuse(rewrite.error());
    flow->rewrite = *rewrite;
    if (flow->default_miss && flow->rewrite.any()) return refuse(Status::bad_parameter);
    if (const auto inserted = state_->steering.insert(*flow); !inserted)
        return refuse(inserted.error());
    flow->hold();
    const Number number = state_->new_number();
    flow->number = number;
    state_->flows.insert(number, std::move(flow));
    if (!sends) state_->port.start();
    return number;
}

Outcome<void> Device::destroy_flow(Number flow) {
    const ControlLock lock(*state_);
    const Flow* const found = state_->flows.find(flow);
    if (!found) return refuse(Status::bad_resource);
    state_->steering.erase(*found);
    found->release();
    state_->flows.erase(flow);
    if (!state_->port_has_destination()) state_->port.put_off_start();
    return {};
}

} // namespace softhca::core
