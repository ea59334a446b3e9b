// SPDX-License-Identifier: BSD-3-Clause
// The members of Sender, for the file that instantiates it for a ring format.
#pragma once

#include "app/softhca/core/send.hpp"
#include "app/softhca/core/send_schedule.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace softhca::core {

// Packet pacing: the device looks at its queues only now and then, and on a machine with other work
// its thread oversleeps. What a queue with packets could not send meanwhile is sent afterwards, so
// that the rate is kept; the resulting burst is bounded. A queue that has nothing to send
// accumulates next to nothing.
inline constexpr uint64_t kBusyCredit = 20 * Limits::kClockKhz; // ms
inline constexpr uint64_t kIdleCredit = Limits::kClockKhz / 2;

[[nodiscard]] inline CompletionError error_of(SendFault fault) {
    switch (fault) {
    case SendFault::protection:
    case SendFault::no_meters:
    case SendFault::no_argument:
    case SendFault::no_key:
    case SendFault::no_queue: return CompletionError::local_protection;
    case SendFault::too_long:
    case SendFault::no_data: return CompletionError::local_length;
    case SendFault::remote_access: return CompletionError::remote_access;
    default: return CompletionError::local_qp_operation;
    }
}

template <Rings R, class W> size_t Sender<R, W>::run(Sq& sq, size_t budget) {
    if (sq.state == QueueState::reset) return 0;
    if (SendSchedule::has_slept(sq)) save_time(sq, kIdleCredit);
    if (!read_doorbell(sq)) {
        save_time(sq, kIdleCredit);
        if (sq.pace) sq.pace.idle(port_.now());
        return 0;
    }
    if (!sq.rc) entry_writes_.execute_entry_writes();
    current_ = &sq;
    if (sq.state == QueueState::error) return flush(sq);
    size_t work = 0;
    while (sq.consumer != sq.producer && work < budget) {
        if (sq.pace && sq.pace.due(port_.now()) == 0) break;
        const Step step = execute(sq, budget - work);
        work += step.packets;
        if (step.fault != SendFault::none) {
            fail(sq, step.fault);
            return work + 1;
        }
        if (!step.complete) {
            watch_.leaves(sq);
            break;
        }
        if (sq.pace) {
            pass_repeats(sq);
            complete(sq, sq.pace.time_after(0));
            sq.pace.spend(1);
        } else {
            complete(sq, port_.now());
        }
        work += step.packets == 0;
        if (sq.state != QueueState::ready) break; // its CQ overran
    }
    return sq.repeats && sq.pace
               ? 0
               : work; // what is repeated for ever is no reason to look again at once
}

/// For a queue that only executes NOPs again and again and reports them in the same place: all that
/// are due at once, except the last, are skipped.
template <Rings R, class W> void Sender<R, W>::pass_repeats(Sq& sq) const {
    const SendRequest& request = ring_.request();
    if (!sq.repeats || request.kind != SendRequest::Kind::nop) return;
    if (request.reports && !sq.cq->keeps_last_only()) return;
    const uint32_t posted = sq.pending() / request.steps;
    const auto unseen =
        static_cast<uint32_t>(std::min<uint64_t>(posted, sq.pace.due(port_.now()))) - 1;
    sq.consumer = static_cast<uint16_t>(sq.consumer + unseen * request.steps);
    sq.counters.wqes += unseen;
    sq.pace.spend(unseen);
    if (!request.reports) return;
    sq.cq->pass_over(unseen);
    sq.counters.cqes += unseen;
}

/// False when there is nothing to do.
template <Rings R, class W> bool Sender<R, W>::read_doorbell(Sq& sq) {
    const uint16_t producer = R::Send::posted(sq);
    if (producer != sq.producer) {
        sq.producer = producer;
        sq.counters.doorbells++;
        if (sq.pending() > sq.entries() && !sq.repeats) {
            // Nothing up to the new position can be trusted: drop it, also in a queue in error.
            if (sq.state == QueueState::ready) fail(sq, SendFault::doorbell_jump);
            sq.consumer = producer;
        }
    }
    return sq.consumer != sq.producer;
}

/// For a queue in error: requests complete as flushed, except those that asked for the first error
/// only. They wait for room in the CQ: net_mlx5's is smaller than its queue, so that flushing all
/// at once would overrun it.
template <Rings R, class W> size_t Sender<R, W>::flush(Sq& sq) {
    size_t flushed = 0;
    while (sq.consumer != sq.producer && R::Send::may_flush(sq)) {
        std::ignore = ring_.fetch(sq); // faulty or not: only steps and reports matter
        if (ring_.request().reports_flush)
            write_error(sq, CompletionError::flushed, SendFault::none);
        skip(sq);
        flushed++;
    }
    return flushed;
}

template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute(Sq& sq, size_t budget) {
    if (const SendFault fault = ring_.fetch(sq); fault != SendFault::none) return {fault};
    if (sq.injected) return {SendFault::injected};
    if (const SendFault fault = ring_.decode(); fault != SendFault::none) return {fault};
    if (sq.off_wire && ring_.request().sends_packets()) return {SendFault::off_wire};
    switch (ring_.request().kind) {
    case SendRequest::Kind::nop: return {.complete = true};
    case SendRequest::Kind::tso: return execute_tso(sq, budget);
    case SendRequest::Kind::packets: return execute_packets(sq, budget);
    case SendRequest::Kind::rdma_write: return execute_rdma(sq, false);
    case SendRequest::Kind::rdma_read: return execute_rdma(sq, true);
    case SendRequest::Kind::meters: return execute_meters(sq);
    case SendRequest::Kind::argument: return execute_argument(sq);
    case SendRequest::Kind::key: return execute_key(sq);
    case SendRequest::Kind::wait_time: return {.complete = ring_.has_come(port_.now())};
    case SendRequest::Kind::wait_completions: return execute_wait();
    case SendRequest::Kind::enable: return execute_enable(sq);
    case SendRequest::Kind::packet: break;
    }
    return execute_packet(sq);
}

/// Appends the data of the segment at `at` and steps over it.
template <Rings R, class W>
inline SendFault Sender<R, W>::gather_segment(const Sq& sq, Cursor& at, Gather& into,
                                              Access access) {
    Segment segment;
    if (const SendFault fault = ring_.next(at, segment); fault != SendFault::none) return fault;
    if (segment.inlined && access != Access::read) return SendFault::bad_inline_data;
    if (segment.inlined)
        return segment.bytes == 0 || into.add(segment.inlined, segment.bytes) ? SendFault::none
                                                                              : SendFault::too_long;
    if (uint64_t{segment.bytes} + into.length() > Limits::kMaxTsoBytes) return SendFault::too_long;
    const bool mapped = mkeys_.translate(segment.lkey, sq.pd, access, segment.address,
                                         segment.bytes, [&](const std::byte* piece, uint32_t part) {
                                             __builtin_prefetch(piece);
                                             return into.add(piece, part);
                                         });
    return mapped ? SendFault::none : SendFault::protection;
}

/// Appends the data of all segments.
template <Rings R, class W>
inline SendFault Sender<R, W>::gather_segments(const Sq& sq, Gather& into, Access access) {
    SendFault fault = SendFault::none;
    for (Cursor at = ring_.first(); !ring_.at_end(at) && fault == SendFault::none;)
        fault = gather_segment(sq, at, into, access);
    return fault;
}

/// Packet pacing: whether the time of what was sent before is not over yet.
template <Rings R, class W> bool Sender<R, W>::must_wait(const Sq& sq) const {
    return sq.rate_kbps != 0 && sq.paced_until > port_.now();
}

/// At most `most` of the time that the queue did not use is made up for.
template <Rings R, class W> void Sender<R, W>::save_time(Sq& sq, uint64_t most) const {
    if (sq.rate_kbps == 0) return;
    sq.paced_until = std::max(sq.paced_until, port_.now() - std::min(port_.now(), most));
}

template <Rings R, class W> void Sender<R, W>::spend_time(Sq& sq, uint32_t bytes) const {
    if (sq.rate_kbps == 0) return;
    save_time(sq, kBusyCredit);
    sq.paced_until += uint64_t{bytes} * 8 * Limits::kClockKhz / sq.rate_kbps;
}

/// False when the wire is busy, or a receiver holds. `looped` records that the frame has had its
/// loopback while it waits for the wire.
template <Rings R, class W>
bool Sender<R, W>::transmit(std::span<const iovec> pieces, uint32_t bytes, Number domain,
                            bool& looped) {
    if (!port_.loops()) return port_.transmit(pieces, bytes);
    const Port::Route route = port_.route(pieces, bytes);
    watch_.routed(route != Port::Route::loopback, route != Port::Route::wire);
    if (route != Port::Route::wire && !looped) {
        looped = true; // also when a receiver's memory is found missing on the way
        if (!receiver_.loop(pieces, bytes, domain)) return looped = false;
    }
    if (route != Port::Route::loopback && !port_.transmit(pieces, bytes)) return false;
    looped = false;
    return true;
}

/// Like transmit(), through the rules for sent packets.
template <Rings R, class W>
bool Sender<R, W>::send_steered(std::span<const iovec> pieces, uint32_t bytes, const Origin& origin,
                                SendProgress& progress) {
    if (!receiver_.steers_sent() || bytes < net::kEthernetBytes) {
        if (!transmit(pieces, bytes, origin.domain, progress.looped)) return false;
        progress.clear(); // rules, or the loopback, may have gone while it waited
        return true;
    }
    const Packet packet(pieces, bytes, {.reg_a = origin.metadata, .source_sqn = origin.sqn},
                        port_.vxlan_ports());
    if (progress.serial == 0) progress.serial = ++steered_;
    receiver_.steer_sent(packet, progress, path_);
    path_.charge();
    charged_ = &progress;
    for (; progress.copies < path_.sent.size(); progress.copies++) {
        const Packet& copy = *path_.sent[progress.copies];
        if (transmit(copy.pieces(), copy.bytes(), origin.domain, progress.looped)) continue;
        leave_charged();
        return false;
    }
    charged_ = nullptr;
    progress.clear();
    path_.count();
    port_.counters.drop_rewrite += path_.misfits;
    port_.counters.drop_rule_loop += path_.endless;
    if (path_.sent.empty() && !path_.loses()) port_.counters.drop_tx_rule++;
    return true;
}

template <Rings R, class W> size_t Sender<R, W>::run_kernel(size_t budget) {
    wire::Wire* const kernel = port_.kernel();
    if (!kernel) return 0;
    size_t done = 0;
    for (; done < budget; done++) {
        const std::span<const std::byte> frame = kernel->peek();
        if (frame.empty()) break;
        entry_writes_.execute_entry_writes();
        const iovec piece{const_cast<std::byte*>(frame.data()), frame.size()};
        const auto bytes = static_cast<uint32_t>(frame.size());
        watch_.begin_sent_by_kernel({&piece, 1}, bytes);
        if (!send_steered({&piece, 1}, bytes, {}, kernel_progress_)) {
            watch_.cancel_sent();
            break;
        }
        watch_.end_sent();
        port_.counters.kernel_tx_packets++;
        kernel->pop();
    }
    return done;
}

/// False when the wire is busy or the queue has to wait.
template <Rings R, class W>
bool Sender<R, W>::send_frame(Sq& sq, Gather& frame, const SendRequest& request) {
    if (must_wait(sq)) return false;
    const uint32_t bytes = frame.length();
    if (request.offloads.any())
        apply_offloads(frame, header_, request.offloads, port_.vxlan_ports());
    watch_.begin_sent(sq, request, frame.pieces(), frame.length());
    if (!send_steered(frame.pieces(), frame.length(),
                      {sq.transport_domain, request.metadata, sq.number}, sq.progress)) {
        watch_.cancel_sent();
        return false;
    }
    spend_time(sq, frame.length());
    sq.counters.packets++;
    sq.counters.bytes += bytes;
    sq.sent++;
    // Last: the frame has been sent, whatever happens to the copies.
    if (receiver_.sniffs_sent()) receiver_.sniff_sent(frame.pieces(), frame.length());
    watch_.end_sent();
    return true;
}

/// What a hairpin SQ sends: nobody posted it and nobody is notified of it.
template <Rings R, class W> size_t Sender<R, W>::run_hairpin(Sq& sq, size_t budget) {
    current_ = nullptr; // no request is executed, so that none can end in an error
    if (sq.state != QueueState::ready || !sq.source) return 0;
    size_t sent = 0;
    while (sent < budget && !must_wait(sq)) {
        const std::optional<HairpinBuffer::Packet> packet = sq.source->take();
        if (!packet) {
            save_time(sq, kIdleCredit);
            break;
        }
        if (!send_held(sq, *packet)) {
            sq.source->keep();
            break;
        }
        sent++;
    }
    return sent;
}

/// False when the wire is busy.
template <Rings R, class W>
bool Sender<R, W>::send_held(Sq& sq, const HairpinBuffer::Packet& packet) {
    if (std::exchange(sq.tried, packet.serial) != packet.serial) sq.progress.clear();
    watch_.begin_hairpin(sq, packet.pieces(), packet.bytes);
    if (!send_steered(packet.pieces(), packet.bytes,
                      {sq.transport_domain, packet.metadata, sq.number}, sq.progress)) {
        watch_.cancel_sent();
        return false;
    }
    sq.source->sent();
    spend_time(sq, packet.bytes);
    sq.counters.packets++;
    sq.counters.bytes += packet.bytes;
    // Last, as in send_frame().
    if (receiver_.sniffs_sent()) receiver_.sniff_sent(packet.pieces(), packet.bytes);
    watch_.end_hairpin();
    sq.source->free();
    return true;
}

template <Rings R, class W> typename Sender<R, W>::Step Sender<R, W>::execute_packet(Sq& sq) {
    const std::span<const std::byte> header = ring_.request().header;
    frame_.clear();
    if (!header.empty())
        std::ignore = frame_.add(header.data(), static_cast<uint32_t>(header.size()));
    if (const auto fault = gather_segments(sq, frame_); fault != SendFault::none) return {fault};
    if (frame_.length() == 0) return {SendFault::no_data};
    if (sq.sent == 0 && !send_frame(sq, frame_, ring_.request())) return {};
    return {.complete = true, .packets = 1};
}

template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute_tso(Sq& sq, size_t budget) {
    const auto header = tso_header(ring_.request().header, port_.vxlan_ports());
    if (ring_.request().mss == 0 || !header) return {SendFault::bad_tso};
    payload_.clear();
    if (const auto fault = gather_segments(sq, payload_); fault != SendFault::none) return {fault};
    return send_segments(sq, ring_.request(), *header, budget);
}

/// Sends payload_ in segments of the request.
template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::send_segments(Sq& sq, const SendRequest& request,
                                                        const net::TsoHeader& header,
                                                        size_t budget) {
    const uint32_t mss = request.mss;
    const uint32_t total = payload_.length();
    Step step;
    PieceCursor cursor(payload_.pieces());
    cursor.skip(std::min(sq.sent * mss, total));
    for (uint32_t offset = sq.sent * mss; offset < total || sq.sent == 0; offset += mss) {
        if (step.packets == budget) return step;
        const uint32_t bytes = std::min<uint32_t>(mss, total - offset);
        header.write(tso_header_.data(), sq.sent, offset, bytes, offset + bytes == total);
        frame_.clear();
        std::ignore = frame_.add(tso_header_.data(), static_cast<uint32_t>(request.header.size()));
        if (!cursor.take(bytes, frame_)) return {SendFault::too_long};
        if (!send_frame(sq, frame_, request)) {
            step.left = std::max(1u, (total - offset + mss - 1) / mss);
            return step;
        }
        step.packets++;
    }
    step.complete = true;
    return step;
}

/// RC: the QP is connected to itself, so the memory on both sides is that of its own PD.
template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute_rdma(const Sq& sq, bool reads) {
    const SendRequest& request = ring_.request();
    Gather& local = payload_;
    Gather& remote = frame_;
    local.clear();
    remote.clear();
    if (const auto fault = gather_segments(sq, local, reads ? Access::write : Access::read);
        fault != SendFault::none)
        return {fault};
    if (!mkeys_.translate(
            request.rkey, sq.pd, reads ? Access::remote_read : Access::remote_write, request.remote,
            local.length(),
            [&](const std::byte* piece, uint32_t bytes) { return remote.add(piece, bytes); }))
        return {SendFault::remote_access};
    const Gather& from = reads ? remote : local;
    PieceCursor at(from.pieces());
    for (const iovec& to : (reads ? local : remote).pieces())
        at.copy(static_cast<uint32_t>(to.iov_len), static_cast<std::byte*>(to.iov_base));
    return {.complete = true};
}

template <Rings R, class W> typename Sender<R, W>::Step Sender<R, W>::execute_meters(const Sq& sq) {
    const SendRequest& request = ring_.request();
    MeterPair* const pair = meters_.find(request.meters);
    if (!pair || pair->pd != sq.pd) return {SendFault::no_meters};
    if (const Segment& to = request.read_to; to.bytes != 0) {
        const auto before = ring_.read(pair->meters);
        const std::byte* from = before.data();
        const bool mapped = mkeys_.translate(to.lkey, sq.pd, Access::write, to.address, to.bytes,
                                             [&](std::byte* piece, uint32_t bytes) {
                                                 std::memcpy(piece, from, bytes);
                                                 from += bytes;
                                                 return true;
                                             });
        if (!mapped) return {SendFault::protection};
    }
    ring_.write(pair->meters, port_.now());
    return {.complete = true};
}

template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute_argument(const Sq& sq) {
    EditArgument* const argument = edit_arguments_.find(ring_.request().other);
    if (!argument || argument->pd != sq.pd) return {SendFault::no_argument};
    argument->data = ring_.argument();
    return {.complete = true};
}

template <Rings R, class W> typename Sender<R, W>::Step Sender<R, W>::execute_key(const Sq& sq) {
    if (!sq.changes_keys) return {SendFault::bad_opcode};
    if (!key_owner_.change_key(ring_.key_change())) return {SendFault::no_key};
    return {.complete = true};
}

template <Rings R, class W> typename Sender<R, W>::Step Sender<R, W>::execute_wait() const {
    const Cq* const cq = cqs_.find(ring_.request().other);
    if (!cq) return {SendFault::no_queue};
    return {.complete = ring_.has_completed(cq->completions())};
}

template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute_enable(const Sq& sq) const {
    Sq* const other = sqs_.find(ring_.request().other);
    if (!other || !other->managed || other->pd != sq.pd) return {SendFault::no_queue};
    other->enabled = static_cast<uint16_t>(ring_.request().position);
    return {.complete = true};
}

/// Continues after the present request, or at the end of what is posted if the request claims to be
/// longer.
template <Rings R, class W> void Sender<R, W>::skip(Sq& sq) {
    sq.consumer =
        static_cast<uint16_t>(sq.consumer + std::min(ring_.request().steps, sq.pending()));
}

template <Rings R, class W> void Sender<R, W>::complete(Sq& sq, uint64_t time) {
    const uint16_t index = sq.consumer;
    sq.consumer = static_cast<uint16_t>(index + ring_.request().steps);
    sq.sent = 0;
    sq.counters.wqes++;
    const bool reports = ring_.request().reports;
    const bool written = reports && ring_.complete(sq, index, time);
    watch_.completed(sq, index, reports, written);
    if (!reports) return;
    if (written)
        sq.counters.cqes++;
    else
        sq.fail();
}

template <Rings R, class W> void Sender<R, W>::fail(Sq& sq, SendFault fault) {
    port_.counters.tx_error_wqes++;
    sq.counters.wqes++;
    sq.state = QueueState::error;
    const CompletionError error = fault == SendFault::injected ? *sq.injected : error_of(fault);
    watch_.failed(sq, fault, error);
    write_error(sq, error, fault);
    sq.injected.reset();
    skip(sq);
    sq.sent = 0;
}

/// The present packet does not go on now. It keeps its path once a part of it has gone.
template <Rings R, class W> void Sender<R, W>::leave_charged() {
    const SendProgress* const progress = std::exchange(charged_, nullptr);
    if (progress && !progress->begun()) path_.take_back();
}

template <Rings R, class W> void Sender<R, W>::abandon() {
    leave_charged();
    const size_t sent = port_.end_batch();
    if (sent != 0 && current_) end_batch(*current_, sent);
}

template <Rings R, class W> void Sender<R, W>::fail_for_memory() {
    if (!current_ || current_->state != QueueState::ready) return;
    if (current_->virtq)
        current_->virtq->fail(VirtqFault::invalid_buffer);
    else
        fail(*current_, SendFault::protection);
}

template <Rings R, class W>
void Sender<R, W>::write_error(Sq& sq, CompletionError error, SendFault fault) {
    if (ring_.complete(sq, error, fault))
        sq.counters.error_cqes++;
    else
        sq.fail();
}

} // namespace softhca::core
