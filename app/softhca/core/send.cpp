// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/send.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace softhca::core {
namespace {

using mlx5::kSegment;
using mlx5::kWqebb;

constexpr uint32_t kEthAt = sizeof(mlx5::WqeCtrlSeg);
constexpr uint32_t kInlineAt = kEthAt + offsetof(mlx5::WqeEthSeg, inline_header);
constexpr uint8_t kCeOnlyFirstError = 0x04; // ce field: report the first error, not the flush

// Packet pacing: the device looks at its queues now and then only, and on a machine with other work
// its thread sleeps longer than it wants to. What a queue with packets could not send meanwhile is
// sent afterwards, so that the rate is kept; what this sends at once is bounded. A queue that has
// nothing to send saves up next to nothing.
constexpr uint64_t kBusyCredit = 20 * Limits::kClockKhz; // ms
constexpr uint64_t kIdleCredit = Limits::kClockKhz / 2;

constexpr uint32_t align_segment(uint32_t bytes) {
    return (bytes + kSegment - 1) & ~(kSegment - 1);
}

template <class T> T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

mlx5::CqeSyndrome syndrome_of(SendFault fault) {
    switch (fault) {
    case SendFault::protection: return mlx5::CqeSyndrome::local_protection;
    case SendFault::too_long:
    case SendFault::no_data: return mlx5::CqeSyndrome::local_length;
    default: return mlx5::CqeSyndrome::local_qp_operation;
    }
}

} // namespace

size_t Sender::run(Sq& sq, size_t budget) {
    if (sq.state == QueueState::reset) return 0;
    if (!read_doorbell(sq)) {
        save_time(sq, kIdleCredit);
        return 0;
    }
    current_ = &sq;
    if (sq.state == QueueState::error) return flush(sq);
    size_t work = 0;
    while (sq.consumer != sq.producer && work < budget) {
        const Step step = execute(sq, budget - work);
        work += step.packets;
        if (step.fault != SendFault::none) {
            fail(sq, step.fault);
            return work + 1;
        }
        if (!step.complete) break;
        complete(sq);
        work += step.packets == 0;
        if (sq.state != QueueState::ready) break; // its CQ overran
    }
    return work;
}

/// False when there is nothing to do.
bool Sender::read_doorbell(Sq& sq) {
    const auto producer = static_cast<uint16_t>(
        net::to_be(__atomic_load_n(&sq.doorbell->send.raw, __ATOMIC_ACQUIRE)));
    if (producer != sq.producer) {
        sq.producer = producer;
        sq.counters.doorbells++;
        if (sq.pending() > sq.entries()) {
            // Nothing up to the new position can be trusted: drop it, also in an error queue.
            wqe_.wqebbs = sq.pending();
            if (sq.state == QueueState::ready) fail(sq, SendFault::doorbell_jump);
            sq.consumer = producer;
        }
    }
    return sq.consumer != sq.producer;
}

/// Queue in error: WQEs complete as flushed, except those that asked for the first error only.
size_t Sender::flush(Sq& sq) {
    size_t flushed = 0;
    while (sq.consumer != sq.producer && sq.cq->has_room(1)) {
        std::ignore = fetch(sq); // faulty or not: only its size and completion mode matter
        if (wqe_.ce != kCeOnlyFirstError)
            write_error(sq, mlx5::CqeSyndrome::flushed, SendFault::none);
        sq.consumer = static_cast<uint16_t>(sq.consumer + std::min(wqe_.wqebbs, sq.pending()));
        flushed++;
    }
    return flushed;
}

/// Copies the WQE at the consumer position into wqe_ and checks its control segment.
SendFault Sender::fetch(const Sq& sq) {
    const uint64_t ring_bytes = sq.entries() * kWqebb;
    const uint64_t at = sq.slot() * kWqebb;
    const auto ctrl = load<mlx5::WqeCtrlSeg>(sq.ring.at(at));
    const uint32_t ds = ctrl.qpn_ds & 0x3f;
    wqe_.opcode = static_cast<uint8_t>(ctrl.opmod_idx_opcode);
    wqe_.ce = ctrl.fm_ce_se & mlx5::kCqUpdateMask;
    wqe_.size = ds * kSegment;
    wqe_.wqebbs = static_cast<uint16_t>((std::max(wqe_.size, 1u) + kWqebb - 1) / kWqebb);
    if (ds == 0 || wqe_.wqebbs > sq.pending()) return SendFault::bad_ds;
    if (static_cast<uint16_t>(ctrl.opmod_idx_opcode >> 8) != sq.consumer)
        return SendFault::bad_index;
    if (ctrl.qpn_ds >> 8 != sq.number) return SendFault::bad_qpn;

    for (uint32_t copied = 0; copied < wqe_.size;) { // parts: the ring wraps, pages end
        const uint64_t from = (at + copied) % ring_bytes;
        const auto part = static_cast<uint32_t>(
            std::min<uint64_t>({sq.ring.run(from), ring_bytes - from, wqe_.size - copied}));
        std::memcpy(wqe_.bytes.data() + copied, sq.ring.at(from), part);
        copied += part;
    }
    return SendFault::none;
}

Sender::Step Sender::execute(Sq& sq, size_t budget) {
    if (const SendFault fault = fetch(sq); fault != SendFault::none) return {fault};
    if (sq.injected) return {SendFault::injected};
    const auto opcode = static_cast<mlx5::WqeOpcode>(wqe_.opcode);
    if (opcode == mlx5::WqeOpcode::nop) return {.complete = true};
    const bool known = opcode == mlx5::WqeOpcode::send || opcode == mlx5::WqeOpcode::tso ||
                       opcode == mlx5::WqeOpcode::enhanced_mpw;
    if (!known) return {SendFault::bad_opcode};
    if (const SendFault fault = decode_eth(); fault != SendFault::none) return {fault};
    switch (opcode) {
    case mlx5::WqeOpcode::tso: return execute_tso(sq, budget);
    case mlx5::WqeOpcode::enhanced_mpw: return execute_mpw(sq, budget);
    default: return execute_send(sq);
    }
}

SendFault Sender::decode_eth() {
    if (wqe_.size < kEthAt + sizeof(mlx5::WqeEthSeg)) return SendFault::bad_eth_segment;
    const auto eth = load<mlx5::WqeEthSeg>(wqe_.bytes.data() + kEthAt);
    const uint16_t inline_size = eth.inline_size;
    wqe_.offloads = {.cs_flags = eth.cs_flags};
    wqe_.mss = eth.mss & 0x3fff;
    wqe_.metadata = eth.metadata;
    wqe_.header_bytes = 0;
    if (inline_size & mlx5::kInsertVlan) {
        wqe_.offloads.insert_vlan = true;
        wqe_.offloads.svlan = (inline_size & mlx5::kInsertSvlan) != 0;
        wqe_.offloads.tci = net::load_be<uint16_t>(eth.inline_header);
    } else {
        wqe_.header_bytes = inline_size & mlx5::kInlineSizeMask;
    }
    if (kInlineAt + wqe_.header_bytes > wqe_.size) return SendFault::bad_eth_segment;
    wqe_.data_at = align_segment(kInlineAt + std::max(wqe_.header_bytes, 2u));
    return SendFault::none;
}

/// Appends what the segment at `at` names and steps over it.
SendFault Sender::gather_segment(const Sq& sq, uint32_t& at, Gather& into) {
    const std::byte* const segment = wqe_.bytes.data() + at;
    const auto word = net::load_be<uint32_t>(segment);
    const uint32_t bytes = word & ~mlx5::kInlineFlag;
    if (word & mlx5::kInlineFlag) {
        constexpr uint32_t kHead = sizeof(mlx5::WqeInlineSeg);
        if (bytes > wqe_.size - at - kHead) return SendFault::bad_inline_data;
        at += align_segment(kHead + bytes);
        return bytes == 0 || into.add(segment + kHead, bytes) ? SendFault::none
                                                              : SendFault::too_long;
    }
    // A byte count of zero means 2^31 to the hardware: never a valid message.
    if (bytes == 0 || uint64_t{bytes} + into.length() > Limits::kMaxTsoBytes)
        return SendFault::too_long;
    const auto data = load<mlx5::WqeDataSeg>(segment);
    const bool mapped = mkeys_.translate(data.lkey, sq.pd, Access::read, data.addr, bytes,
                                         [&](const std::byte* piece, uint32_t part) {
                                             __builtin_prefetch(piece);
                                             return into.add(piece, part);
                                         });
    at += kSegment;
    return mapped ? SendFault::none : SendFault::protection;
}

/// Appends what all segments after the Ethernet segment name.
SendFault Sender::gather_segments(const Sq& sq, Gather& into) {
    SendFault fault = SendFault::none;
    for (uint32_t at = wqe_.data_at; at < wqe_.size && fault == SendFault::none;)
        fault = gather_segment(sq, at, into);
    return fault;
}

/// Packet pacing: whether what was sent before has not had its time yet.
bool Sender::must_wait(const Sq& sq) const {
    return sq.rate_kbps != 0 && sq.paced_until > port_.now();
}

/// No more than `most` of the time that the queue did not use is made good for.
void Sender::save_time(Sq& sq, uint64_t most) const {
    if (sq.rate_kbps == 0) return;
    sq.paced_until = std::max(sq.paced_until, port_.now() - std::min(port_.now(), most));
}

void Sender::spend_time(Sq& sq, uint32_t bytes) const {
    if (sq.rate_kbps == 0) return;
    save_time(sq, kBusyCredit);
    sq.paced_until += uint64_t{bytes} * 8 * Limits::kClockKhz / sq.rate_kbps;
}

/// False when the wire is busy, or a receiver holds. `looped` keeps that the frame has had its
/// loopback while it waits for the wire.
bool Sender::transmit(std::span<const iovec> pieces, uint32_t bytes, Number domain, bool& looped) {
    if (!port_.loops()) return port_.transmit(pieces, bytes);
    const Port::Route route = port_.route(pieces, bytes);
    if (route != Port::Route::wire && !looped) {
        looped = true; // also when a receiver's memory is found missing on the way
        if (!receiver_.loop(pieces, bytes, domain)) return looped = false;
    }
    if (route != Port::Route::loopback && !port_.transmit(pieces, bytes)) return false;
    looped = false;
    return true;
}

/// As transmit(), by the rules for what is sent.
bool Sender::send_steered(std::span<const iovec> pieces, uint32_t bytes, const Origin& origin,
                          SendProgress& progress) {
    if (!receiver_.steers_sent() || bytes < net::kEthernetBytes)
        return transmit(pieces, bytes, origin.domain, progress.looped);
    const Packet packet(pieces, bytes, {.reg_a = origin.metadata, .source_sqn = origin.sqn});
    receiver_.steer_sent(packet, path_);
    for (; progress.copies < path_.sent.size(); progress.copies++) {
        const Packet& copy = *path_.sent[progress.copies];
        if (!transmit(copy.pieces(), copy.bytes(), origin.domain, progress.looped)) return false;
    }
    progress.copies = 0;
    path_.count();
    port_.counters.drop_rewrite += path_.misfits;
    if (path_.sent.empty() && path_.misfits == 0) port_.counters.drop_tx_rule++;
    return true;
}

size_t Sender::run_kernel(size_t budget) {
    wire::Wire* const kernel = port_.kernel();
    if (!kernel) return 0;
    size_t done = 0;
    for (; done < budget; done++) {
        const std::span<const std::byte> frame = kernel->peek();
        if (frame.empty()) break;
        const iovec piece{const_cast<std::byte*>(frame.data()), frame.size()};
        if (!send_steered({&piece, 1}, static_cast<uint32_t>(frame.size()), {}, kernel_progress_))
            break;
        port_.counters.kernel_tx_packets++;
        kernel->pop();
    }
    return done;
}

/// False when the wire is busy or the queue has to wait.
bool Sender::send_frame(Sq& sq, Gather& frame) {
    if (must_wait(sq)) return false;
    const uint32_t bytes = frame.length();
    if (wqe_.offloads.any()) apply_offloads(frame, header_, wqe_.offloads);
    if (!send_steered(frame.pieces(), frame.length(),
                      {sq.transport_domain, wqe_.metadata, sq.number}, sq.progress))
        return false;
    spend_time(sq, frame.length());
    sq.counters.packets++;
    sq.counters.bytes += bytes;
    sq.sent++;
    // Last: it is sent, whatever happens to the copies.
    if (receiver_.sniffs_sent()) receiver_.sniff_sent(frame.pieces(), frame.length());
    return true;
}

Sender::Step Sender::execute_send(Sq& sq) {
    frame_.clear();
    if (wqe_.header_bytes != 0)
        std::ignore = frame_.add(wqe_.bytes.data() + kInlineAt, wqe_.header_bytes);
    if (const auto fault = gather_segments(sq, frame_); fault != SendFault::none) return {fault};
    if (frame_.length() == 0) return {SendFault::no_data};
    if (sq.sent == 0 && !send_frame(sq, frame_)) return {};
    return {.complete = true, .packets = 1};
}

/// Enhanced multi-packet write: one Ethernet segment for all, then one segment per packet.
Sender::Step Sender::execute_mpw(Sq& sq, size_t budget) {
    if (wqe_.header_bytes != 0) return {SendFault::bad_eth_segment};
    if (wqe_.data_at >= wqe_.size) return {SendFault::no_data};
    // All segments are checked before a packet leaves; this also prefetches the packets.
    for (uint32_t at = wqe_.data_at; at < wqe_.size;) {
        frame_.clear();
        if (const auto fault = gather_segment(sq, at, frame_); fault != SendFault::none)
            return {fault};
        if (frame_.length() == 0) return {SendFault::no_data};
    }
    const uint32_t already_sent = sq.sent;
    Step step;
    uint32_t at = wqe_.data_at;
    for (uint32_t packet = 0; at < wqe_.size; packet++) {
        frame_.clear();
        std::ignore = gather_segment(sq, at, frame_);
        if (packet < already_sent) continue;
        if (step.packets == budget || !send_frame(sq, frame_)) return step;
        step.packets++;
    }
    step.complete = true;
    return step;
}

Sender::Step Sender::execute_tso(Sq& sq, size_t budget) {
    TsoHeader header;
    const std::span<const std::byte> inlined{wqe_.bytes.data() + kInlineAt, wqe_.header_bytes};
    if (wqe_.mss == 0 || !header.prepare(inlined)) return {SendFault::bad_tso};
    payload_.clear();
    if (const auto fault = gather_segments(sq, payload_); fault != SendFault::none) return {fault};

    const uint32_t total = payload_.length();
    Step step;
    PieceCursor cursor(payload_.pieces());
    cursor.skip(std::min(sq.sent * wqe_.mss, total));
    for (uint32_t offset = sq.sent * wqe_.mss; offset < total || sq.sent == 0; offset += wqe_.mss) {
        if (step.packets == budget) return step;
        const uint32_t bytes = std::min<uint32_t>(wqe_.mss, total - offset);
        header.write(tso_header_.data(), sq.sent, offset, bytes, offset + bytes == total);
        frame_.clear();
        std::ignore = frame_.add(tso_header_.data(), wqe_.header_bytes);
        if (!cursor.take(bytes, frame_)) return {SendFault::too_long};
        if (!send_frame(sq, frame_)) return step;
        step.packets++;
    }
    step.complete = true;
    return step;
}

void Sender::complete(Sq& sq) {
    const uint16_t index = sq.consumer;
    sq.consumer = static_cast<uint16_t>(index + wqe_.wqebbs);
    sq.sent = 0;
    sq.counters.wqes++;
    if (!(wqe_.ce & mlx5::kCqUpdate)) return;
    const bool written = sq.cq->write<mlx5::Cqe>(
        mlx5::CqeOpcode::req, uint32_t{wqe_.opcode} << 24 | sq.number, index, [&](mlx5::Cqe& cqe) {
            cqe.srqn_uidx = sq.user_index;
            cqe.timestamp = port_.now();
        });
    if (written)
        sq.counters.cqes++;
    else
        sq.fail();
}

void Sender::fail(Sq& sq, SendFault fault) {
    port_.counters.tx_error_wqes++;
    sq.counters.wqes++;
    sq.state = QueueState::error;
    write_error(sq, fault == SendFault::injected ? *sq.injected : syndrome_of(fault), fault);
    sq.injected.reset();
    sq.consumer = static_cast<uint16_t>(sq.consumer + std::min(wqe_.wqebbs, sq.pending()));
    sq.sent = 0;
}

void Sender::fail_for_memory() {
    if (current_ && current_->state == QueueState::ready) fail(*current_, SendFault::protection);
}

void Sender::write_error(Sq& sq, mlx5::CqeSyndrome syndrome, SendFault fault) {
    const bool written = sq.cq->write<mlx5::ErrorCqe>(
        mlx5::CqeOpcode::req_error, uint32_t{wqe_.opcode} << 24 | sq.number, sq.consumer,
        [&](mlx5::ErrorCqe& cqe) {
            cqe.srqn_uidx = sq.user_index;
            cqe.vendor_syndrome = static_cast<uint8_t>(fault);
            cqe.syndrome = static_cast<uint8_t>(syndrome);
        });
    if (written)
        sq.counters.error_cqes++;
    else
        sq.fail();
}

} // namespace softhca::core
