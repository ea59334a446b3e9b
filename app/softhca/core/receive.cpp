// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/receive.hpp"

#include "app/softhca/core/gather.hpp"

#include <algorithm>

namespace softhca::core {
namespace {

/// How long an RQ without WQEs may hold a wire with pause before its packets are dropped after all.
constexpr uint64_t kMaxHoldNs = 1'000'000'000;

} // namespace

bool Receiver::loop(std::span<const iovec> pieces, uint32_t bytes, Number domain) {
    // What is received is the device's own, whatever becomes of the memory that it was sent from.
    const uint32_t copied = std::min(bytes, static_cast<uint32_t>(copy_.size()));
    copy_front(pieces, copy_.data(), copied);
    const iovec piece{copy_.data(), copied};
    origin_ = {domain, (copy_.front() & std::byte{1}) != std::byte{0}};
    const bool done = receive({&piece, 1}, bytes);
    origin_.reset();
    return done;
}

bool Receiver::is_deaf(const Tir& tir) const {
    if (origin_->domain != tir.transport_domain) return false;
    return origin_->group ? !tir.self_loopback.multicast : !tir.self_loopback.unicast;
}

void Receiver::count_arrival(std::span<const iovec> pieces, uint32_t bytes) {
    origin_ ? port_.count_looped(pieces, bytes) : port_.count_received(pieces, bytes);
}

void Receiver::place(const Tir& tir, const Packet& packet, uint32_t tag) {
    if (origin_ && is_deaf(tir))
        port_.counters.drop_self_loopback++;
    else
        placer_.place(select_target(tir, packet), packet, tag);
}

bool Receiver::receive(std::span<const iovec> pieces, uint32_t bytes) {
    PortCounters& counters = port_.counters;
    const auto count = [&](uint64_t& cause) {
        count_arrival(pieces, bytes);
        cause++;
        return true;
    };
    if (!port_.link_up()) return count(counters.drop_link_down);
    if (bytes < net::kEthernetBytes) return count(counters.drop_undersize);
    if (bytes > port_.max_frame()) return count(counters.drop_oversize);

    const Packet packet(pieces, bytes);
    if (tables_.active(FlowRoot::receive)) return receive_by_tables(packet);
    copies_.clear();
    const Rule* rule = steering_.match(packet.key(), copies_);
    const bool by_kernel = origin_ && origin_->domain == kKernelDomain;
    const bool to_kernel = !rule && !by_kernel && port_.kernel_accepts(packet.head());
    if (!rule && !to_kernel) rule = steering_.match(FlowDomain::leftovers, packet.key());
    const bool may_hold = pause_ || delay_drop_rqs != 0;
    if (may_hold && must_hold(rule, packet)) return false;

    count_arrival(pieces, bytes);
    steering_.for_each_sniffer(packet.key(),
                               [&](const Rule& sniffer) { deliver(sniffer, packet, 0); });
    uint32_t tag = 0;
    for (const Rule* const copy : copies_)
        tag = deliver(*copy, packet, tag);
    if (rule) deliver(*rule, packet, tag);
    if (to_kernel)
        port_.to_kernel(pieces, bytes);
    else if (copies_.empty() && (!rule || rule->drop))
        (rule        ? counters.drop_rule
         : by_kernel ? counters.drop_self_loopback
                     : counters.drop_no_match)++;
    return true;
}

bool Receiver::listens(const Tir& tir, const Packet& packet) {
    Rq& rq = *select_target(tir, packet).rq;
    return rq.state == QueueState::ready && placer_.has_room(rq, packet.bytes());
}

bool Receiver::is_expected(std::span<const iovec> pieces, uint32_t bytes) {
    const Packet packet(pieces, bytes);
    if (tables_.active(FlowRoot::receive)) {
        const FlowPath& path = tables_.walk(FlowRoot::receive, packet.key());
        return (path.dropped || !path.stops.empty()) &&
               std::ranges::all_of(path.stops, [&](const FlowPath::Stop& stop) {
                   return listens(*stop.tir, packet);
               });
    }
    copies_.clear();
    const Rule* rule = steering_.match(packet.key(), copies_);
    if (!rule && port_.kernel_accepts(packet.head())) return true;
    if (!rule) rule = steering_.match(FlowDomain::leftovers, packet.key());
    if (rule) copies_.push_back(rule);
    return !copies_.empty() && std::ranges::all_of(copies_, [&](const Rule* taker) {
        return std::ranges::all_of(taker->destinations,
                                   [&](const Tir* tir) { return listens(*tir, packet); });
    });
}

bool Receiver::receive_by_tables(const Packet& packet) {
    const FlowPath& path = tables_.walk(FlowRoot::receive, packet.key());
    if (pause_ || delay_drop_rqs != 0) {
        bool hold = false;
        for (const FlowPath::Stop& stop : path.stops)
            hold |= holds(*stop.tir, packet);
        if (hold) return false;
    }
    PortCounters& counters = port_.counters;
    count_arrival(packet.pieces(), packet.bytes());
    if (path.stops.empty()) (path.dropped ? counters.drop_rule : counters.drop_no_match)++;
    deliver_path(path, packet);
    sniff(FlowRoot::sniff_received, packet);
    return true;
}

void Receiver::count(const std::vector<FlowCounter*>& counters, const Packet& packet) {
    for (FlowCounter* const counter : counters) {
        counter->counts.packets++;
        counter->counts.bytes += packet.bytes();
    }
}

void Receiver::deliver_path(const FlowPath& path, const Packet& packet) {
    count(path.counters, packet);
    for (const FlowPath::Stop& stop : path.stops)
        place(*stop.tir, packet, stop.tag);
}

void Receiver::sniff(FlowRoot root, const Packet& packet) {
    if (tables_.active(root)) deliver_path(tables_.walk(root, packet.key()), packet);
}

void Receiver::sniff_sent(std::span<const iovec> pieces, uint32_t bytes) {
    if (bytes < net::kEthernetBytes || bytes > port_.max_frame()) return;
    copy_front(pieces, copy_.data(), bytes);
    const iovec piece{copy_.data(), bytes};
    const Packet packet({&piece, 1}, bytes);
    steering_.for_each_sniffer(packet.key(),
                               [&](const Rule& sniffer) { deliver(sniffer, packet, 0); });
    sniff(FlowRoot::sniff_sent, packet);
}

uint32_t Receiver::deliver(const Rule& rule, const Packet& packet, uint32_t tag) {
    if (rule.tag != 0) tag = rule.tag;
    count(rule.counters, packet);
    for (const Tir* const tir : rule.destinations)
        place(*tir, packet, tag);
    return tag;
}

bool Receiver::must_hold(const Rule* rule, const Packet& packet) {
    bool hold = false; // all destinations are asked before the first one gets its copy
    const auto ask = [&](const Rule& asked) {
        for (const Tir* const tir : asked.destinations)
            hold |= holds(*tir, packet);
    };
    for (const Rule* const copy : copies_)
        ask(*copy);
    if (rule) ask(*rule);
    return hold;
}

bool Receiver::holds(const Tir& tir, const Packet& packet) {
    return !(origin_ && is_deaf(tir)) && holds(*select_target(tir, packet).rq, packet.bytes());
}

bool Receiver::holds(Rq& rq, uint32_t bytes) {
    const bool delays =
        rq.hold_when_empty && delay_drop_.timeout_ns != 0 && port_.now() >= delay_drop_.off_until;
    if (!(pause_ || delays) || rq.state != QueueState::ready) {
        rq.held_since = 0;
        return false;
    }
    if (placer_.has_room(rq, bytes)) {
        rq.held_since = 0;
        rq.gave_up = false;
        return false;
    }
    if (rq.state != QueueState::ready) return false;
    if (rq.held_since == 0) rq.held_since = port_.now();
    return goes_on_holding(rq, port_.now() - rq.held_since);
}

bool Receiver::goes_on_holding(Rq& rq, uint64_t held_ns) {
    if (pause_) {
        rq.gave_up |= held_ns > kMaxHoldNs;
        return !rq.gave_up;
    }
    if (held_ns <= delay_drop_.timeout_ns) return true;
    if (delay_drop_.rearm_ns == 0) delay_drop_.timeout_ns = 0;
    delay_drop_.off_until = port_.now() + delay_drop_.rearm_ns;
    port_.tell_listeners(AsyncEvent::delay_drop_timeout);
    return false;
}

} // namespace softhca::core
