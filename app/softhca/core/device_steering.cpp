// SPDX-License-Identifier: BSD-3-Clause
// Control calls about where packets go: RQTs, TIRs and rules. Each takes the device lock.
#include "app/softhca/core/device_state.hpp"

#include <algorithm>
#include <bit>

namespace softhca::core {
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
