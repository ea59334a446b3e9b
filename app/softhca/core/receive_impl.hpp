// SPDX-License-Identifier: BSD-3-Clause
// The members of Receiver, for the file that instantiates it for a ring format.
#pragma once

#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/receive.hpp"
#include "common/lines.hpp"

#include <algorithm>
#include <concepts>

namespace softhca::core {

/// How long an RQ without requests may hold a wire with pause before its packets are dropped after
/// all.
inline constexpr uint64_t kMaxHoldNs = 1'000'000'000;

template <Rings R, class W>
bool Receiver<R, W>::loop(std::span<const iovec> pieces, uint32_t bytes, Number domain) {
    // The device receives its own copy, whatever becomes of the memory that the frame was sent
    // from.
    const uint32_t copied = std::min(bytes, static_cast<uint32_t>(copy_.size()));
    copy_front(pieces, copy_.data(), copied);
    const iovec piece{copy_.data(), copied};
    origin_ = {domain, (copy_.front() & std::byte{1}) != std::byte{0}};
    const bool done = receive({&piece, 1}, bytes);
    origin_.reset();
    return done;
}

template <Rings R, class W> bool Receiver<R, W>::is_deaf(const Tir& tir) const {
    if (origin_->domain != tir.transport_domain) return false;
    return origin_->group ? !tir.self_loopback.multicast : !tir.self_loopback.unicast;
}

template <Rings R, class W>
void Receiver<R, W>::count_arrival(std::span<const iovec> pieces, uint32_t bytes) {
    origin_ ? port_.count_looped(pieces, bytes) : port_.count_received(pieces, bytes);
}

template <Rings R, class W> void Receiver<R, W>::place(const FlowPath::Stop& stop) {
    if (origin_ && is_deaf(*stop.tir)) {
        port_.counters.drop_self_loopback++;
        watch_.deaf(*stop.tir);
        return;
    }
    const Target target = select_target(*stop.tir, *stop.packet);
    watch_.targeted(*stop.tir, target);
    const Labels labels{stop.tag, stop.packet->key().meta.reg_b};
    if (stop.tir->lro.any())
        placer_.coalesce(stop.tir->lro, target, *stop.packet, labels);
    else
        placer_.place(target, *stop.packet, labels);
}

template <Rings R, class W> bool Receiver<R, W>::steer(const Packet& packet) {
    path_.begin(false, port_.now(), received_);
    if (tables_.active(FlowRoot::receive)) {
        tables_.walk(FlowRoot::receive, packet, path_, watch_);
        return false;
    }
    path_.repeats = !steering_.asks_numbers_of(packet);
    copies_.clear();
    const FlowKey& key = steering_.key_of(packet);
    const Rule* rule = steering_.match(key, copies_, watch_);
    const bool to_kernel = !rule && !by_kernel() && port_.kernel_accepts(packet.head());
    if (!rule && !to_kernel) rule = steering_.match(FlowDomain::leftovers, key, watch_);
    uint32_t tag = 0;
    for (const Rule* const copy : copies_)
        tag = FlowTables::follow(*copy, packet, tag, path_, watch_);
    if (rule) FlowTables::follow(*rule, packet, tag, path_, watch_);
    if (to_kernel) watch_.for_kernel();
    return to_kernel;
}

template <Rings R, class W>
bool Receiver<R, W>::take(std::span<const iovec> pieces, uint32_t bytes) {
    PortCounters& counters = port_.counters;
    const auto count = [&](uint64_t& cause) {
        count_arrival(pieces, bytes);
        cause++;
        return true;
    };
    if (!port_.link_up()) return count(counters.drop_link_down);
    if (bytes < net::kEthernetBytes) return count(counters.drop_undersize);
    if (bytes > port_.max_frame()) return count(counters.drop_oversize);

    // An observer wants to see the complete path.
    const bool may_know = std::same_as<W, NoWatch> && !origin_ && pieces.size() == 1;
    const Packet packet(pieces, bytes, {}, port_.vxlan_ports());
    const bool to_kernel = steer(packet);
    if (may_hold() && must_hold()) return false;

    received_++;
    if (may_know) remember(packet, to_kernel);
    count_arrival(pieces, bytes);
    sniff(FlowRoot::sniff_received, packet);
    deliver(path_);
    if (to_kernel) port_.to_kernel(pieces, bytes);
    count_losses(to_kernel);
    return true;
}

template <Rings R, class W> size_t Receiver<R, W>::receive_batch(std::span<const iovec> frames) {
    for (taken_ = 0; taken_ < frames.size(); taken_++) {
        if constexpr (std::same_as<W, NoWatch>) take_known(frames.subspan(taken_));
        if (taken_ == frames.size()) break;
        const iovec& frame = frames[taken_];
        if (!receive({&frame, 1}, static_cast<uint32_t>(frame.iov_len))) break;
    }
    return std::exchange(taken_, 0);
}

/// Prefetches all lines of a frame but the first, which is here already: the next frame's arrive
/// while this one is read.
inline void fetch_rest(const iovec& frame) {
    if (frame.iov_len > kLineBytes)
        fetch_lines(static_cast<const std::byte*>(frame.iov_base) + kLineBytes,
                    frame.iov_len - kLineBytes);
}

template <Rings R, class W> void Receiver<R, W>::take_known(std::span<const iovec> frames) {
    if (!port_.link_up()) return;
    size_t known = 0;
    for (; known < frames.size(); known++) {
        const iovec& frame = frames[known];
        if (frame.iov_len > port_.max_frame()) break;
        if (known + 1 < frames.size()) fetch_rest(frames[known + 1]);
        if (!flows_.find(static_cast<const std::byte*>(frame.iov_base),
                         static_cast<uint32_t>(frame.iov_len), known_[known]))
            break;
    }
    for (size_t i = 0; i < known;) {
        const size_t run = run_at(i, known);
        const size_t placed =
            placer_.place_plain(*known_[i].flow->target.rq, {frames.data() + i, run}, &known_[i]);
        taken_ += placed;
        i += placed;
        if (placed != 0) continue;
        if (!take_known(frames[i], known_[i])) return;
        taken_++;
        i++;
    }
}

/// How many of the `known` frames, from this one on, go to its queue in a row.
template <Rings R, class W> size_t Receiver<R, W>::run_at(size_t first, size_t known) const {
    size_t end = first + 1;
    while (end < known && known_[end].flow->target.rq == known_[first].flow->target.rq)
        end++;
    return end - first;
}

/// For a queue that does not take the frame unchanged.
template <Rings R, class W>
bool Receiver<R, W>::take_known(const iovec& frame, const typename FlowCache<R>::Found& found) {
    const KnownFlow<R>& flow = *found.flow;
    const auto bytes = static_cast<uint32_t>(frame.iov_len);
    if (may_hold() && holds(*flow.target.rq, bytes)) return false;
    port_.count_received({&frame, 1}, bytes);
    flow.count(bytes);
    placer_.place(flow.target, Frame(frame, found.headers(), &found.verdict), {.tag = flow.tag});
    return true;
}

template <Rings R, class W> void Receiver<R, W>::remember(const Packet& packet, bool to_kernel) {
    if (!path_.repeats || to_kernel || path_.stops.size() != 1 || sniffs_received()) return;
    if (path_.loses()) return;        // so would the next one
    if (packet.is_verified()) return; // the next one's checksum may be wrong
    const FlowPath::Stop& stop = path_.stops.front();
    if (stop.packet != &packet || stop.tir->lro.any()) return; // changed, or joins others
    const Target target = select_target(*stop.tir, packet);
    if (path_.counts.size() > KnownFlow<R>::kCounters || target.inner) return;
    const net::Headers& headers = packet.headers();
    KnownFlow<R> flow{.target = target,
                      .tag = stop.tag,
                      .counters = {},
                      .headers = headers,
                      .completion = R::Receive::prepare({.target = target,
                                                         .outer = headers,
                                                         .headers = headers,
                                                         .verdict = {},
                                                         .tag = stop.tag})};
    std::ranges::transform(path_.counts, flow.counters.begin(), &FlowPath::Count::counter);
    flows_.learn(packet, flow);
}

template <Rings R, class W> void Receiver<R, W>::count_losses(bool to_kernel) {
    PortCounters& counters = port_.counters;
    counters.drop_rewrite += path_.misfits;
    counters.drop_rule_loop += path_.endless;
    if (to_kernel || !path_.stops.empty() || path_.loses()) return;
    const bool rules = !tables_.active(FlowRoot::receive);
    (path_.dropped          ? counters.drop_rule
     : rules && by_kernel() ? counters.drop_self_loopback
                            : counters.drop_no_match)++;
}

template <Rings R, class W> bool Receiver<R, W>::listens(const FlowPath::Stop& stop) {
    Rq& rq = *select_target(*stop.tir, *stop.packet).rq;
    return rq.state == QueueState::ready && placer_.takes(rq, stop.packet->bytes());
}

template <Rings R, class W>
bool Receiver<R, W>::is_expected(std::span<const iovec> pieces, uint32_t bytes) {
    const Packet packet(pieces, bytes, {}, port_.vxlan_ports());
    if (steer(packet)) return true;
    return (path_.dropped || path_.endless != 0 || !path_.stops.empty()) &&
           std::ranges::all_of(path_.stops,
                               [&](const FlowPath::Stop& stop) { return listens(stop); });
}

template <Rings R, class W> void Receiver<R, W>::deliver(FlowPath& path) {
    path.charge();
    path.count();
    for (const FlowPath::Stop& stop : path.stops)
        place(stop);
}

/// Sniffers get the packet before rules change it.
template <Rings R, class W> void Receiver<R, W>::sniff(FlowRoot root, const Packet& packet) {
    if (!tables_.active(root) && !steering_.has(FlowDomain::sniffer)) return;
    watch_.sniffed();
    sniff_path_.begin(false, port_.now(), received_);
    if (tables_.active(root)) tables_.walk(root, packet, sniff_path_, watch_);
    steering_.for_each_sniffer(steering_.key_of(packet), watch_, [&](const Rule& sniffer) {
        FlowTables::follow(sniffer, packet, 0, sniff_path_, watch_);
    });
    deliver(sniff_path_);
}

template <Rings R, class W>
void Receiver<R, W>::sniff_sent(std::span<const iovec> pieces, uint32_t bytes) {
    if (bytes < net::kEthernetBytes || bytes > port_.max_frame()) return;
    copy_front(pieces, copy_.data(), bytes);
    const iovec piece{copy_.data(), bytes};
    sniff(FlowRoot::sniff_sent, Packet({&piece, 1}, bytes, {}, port_.vxlan_ports()));
}

template <Rings R, class W>
void Receiver<R, W>::steer_sent(const Packet& packet, SendProgress& progress, FlowPath& path) {
    if (!progress.begun()) progress.colors.clear();
    path.begin(true, port_.now(), progress.serial, &progress.colors);
    if (tables_.active(FlowRoot::transmit)) {
        tables_.walk(FlowRoot::transmit, packet, path, watch_);
    } else if (const Rule* const rule =
                   steering_.match(FlowDomain::egress, steering_.key_of(packet), watch_)) {
        FlowTables::follow(*rule, packet, 0, path, watch_);
    } else {
        path.sent.push_back(&packet);
    }
}

template <Rings R, class W> bool Receiver<R, W>::must_hold() {
    bool hold = false; // all destinations are asked before the first one gets its copy
    for (const FlowPath::Stop& stop : path_.stops)
        hold |= holds(*stop.tir, *stop.packet);
    return hold;
}

template <Rings R, class W> bool Receiver<R, W>::holds(const Tir& tir, const Packet& packet) {
    return !(origin_ && is_deaf(tir)) && holds(*select_target(tir, packet).rq, packet.bytes());
}

template <Rings R, class W> bool Receiver<R, W>::holds(Rq& rq, uint32_t bytes) {
    const bool delays =
        rq.hold_when_empty && delay_drop_.timeout_ns != 0 && port_.now() >= delay_drop_.off_until;
    if (!(port_.pause() || delays) || rq.state != QueueState::ready) {
        rq.held_since = 0;
        return false;
    }
    if (placer_.takes(rq, bytes)) {
        rq.held_since = 0;
        rq.gave_up = false;
        return false;
    }
    if (rq.state != QueueState::ready) return false;
    if (rq.held_since == 0) rq.held_since = port_.now();
    return goes_on_holding(rq, port_.now() - rq.held_since);
}

template <Rings R, class W> bool Receiver<R, W>::goes_on_holding(Rq& rq, uint64_t held_ns) {
    if (port_.pause()) {
        rq.gave_up |= held_ns > kMaxHoldNs;
        return !rq.gave_up;
    }
    if (held_ns <= delay_drop_.timeout_ns) return true;
    rq.held_since = 0; // the next packet has all of the time again
    if (delay_drop_.rearm_ns == 0) delay_drop_.timeout_ns = 0;
    delay_drop_.off_until = port_.now() + delay_drop_.rearm_ns;
    port_.tell_listeners(AsyncEvent::delay_drop_timeout);
    return false;
}

} // namespace softhca::core
