// SPDX-License-Identifier: BSD-3-Clause
// The members of Placer, for the file that instantiates it for a ring format.
#pragma once

#include "app/softhca/core/place.hpp"
#include "common/lines.hpp"
#include "common/net/checksum.hpp"
#include "common/net/copy.hpp"

#include <tuple>
#include <utility>

namespace softhca::core {

inline constexpr uint32_t kMacs = 12; // bytes in front of a VLAN tag

[[nodiscard]] inline CompletionError error_of(ReceiveFault fault) {
    switch (fault) {
    case ReceiveFault::protection: return CompletionError::local_protection;
    case ReceiveFault::too_short: return CompletionError::local_length;
    default: return CompletionError::local_qp_operation;
    }
}

template <Rings R, class W> void Placer<R, W>::read_doorbell(Rq& rq) {
    const uint16_t producer = Ring::posted(rq);
    if (producer == rq.producer) return;
    rq.producer = producer;
    rq.counters.doorbells++;
    if (rq.pending() <= rq.entries()) return;
    if (rq.state == QueueState::ready) fail(rq, ReceiveFault::doorbell_jump);
    rq.consumer = producer; // nothing up to here can be trusted
}

template <Rings R, class W> uint32_t Placer<R, W>::strides_for(const Rq& rq, uint32_t bytes) const {
    const uint32_t shift = rq.strides.two_byte_shift ? 2 : 0;
    return (bytes + shift + (1u << rq.strides.log_stride_bytes) - 1) >> rq.strides.log_stride_bytes;
}

template <Rings R, class W> bool Placer<R, W>::has_room(Rq& rq, uint32_t bytes) {
    if (rq.coalescing) return has_room_behind_session(rq, bytes);
    if (!rq.striding) return has_request(rq, bytes);
    if (rq.pending() == 0) read_doorbell(rq);
    if (rq.pending() == 0) return false;
    if (rq.next_stride == 0) return true;
    const uint32_t strides = 1u << rq.strides.log_strides;
    if (rq.next_stride + strides_for(rq, bytes) <= strides) return true;
    if (!leave_rest(rq)) return false;
    if (rq.pending() == 0) read_doorbell(rq);
    return rq.pending() != 0;
}

/// Reports that the rest of the current striding request stays unused, and leaves it.
template <Rings R, class W> bool Placer<R, W>::leave_rest(Rq& rq) {
    const uint32_t unused = (1u << rq.strides.log_strides) - rq.next_stride;
    const bool written = Ring::complete_unused(rq, unused, port_.now());
    rq.next_stride = 0;
    leave_request(rq, written);
    return written;
}

/// The current request is done, without a packet. `written`: a CQE reports this; otherwise there
/// was no room for one.
template <Rings R, class W> void Placer<R, W>::leave_request(Rq& rq, bool written) {
    rq.consumer++;
    rq.counters.wqes++;
    if (written)
        rq.counters.cqes++;
    else
        rq.fail();
}

template <Rings R, class W> void Placer<R, W>::fail_for_memory() {
    Rq& rq = *placing_;
    abandon();
    if (rq.virtq) return rq.virtq->fail(VirtqFault::invalid_buffer);
    if (rq.state == QueueState::ready) fail(rq, ReceiveFault::protection);
}

template <Rings R, class W> void Placer<R, W>::abandon() {
    if (std::exchange(placing_, nullptr)) port_.counters.drop_rx_error++;
}

template <Rings R, class W> void Placer<R, W>::count_out_of_buffer(Rq& rq) {
    port_.counters.drop_out_of_buffer++;
    rq.counters.out_of_buffer++;
    rq.q_counter->out_of_buffer++;
}

/// Hairpin and virtio queues never have requests, so queues with requests need not be checked for
/// being such.
template <Rings R, class W>
void Placer<R, W>::find_no_request(Rq& rq, const Frame& frame, const Labels& labels) {
    if (rq.virtq) return put_into_chain(rq, frame);
    if (!rq.hairpin || !rq.hairpin->has_room(frame.bytes())) {
        count_out_of_buffer(rq);
        watch_.no_room(rq);
        return;
    }
    rq.hairpin->push(frame.pieces(), frame.bytes(), labels.metadata);
    watch_.passed_on(rq, frame.bytes());
    rq.counters.packets++;
    rq.counters.bytes += frame.bytes();
    port_.counters.delivered++;
}

template <Rings R, class W>
std::optional<typename Placer<R, W>::Cut> Placer<R, W>::store(Rq& rq, const Frame& frame,
                                                              const Labels& labels) {
    if (rq.coalescing) {
        watch_.session_ends(rq);
        end_session(rq);
    }
    if (rq.state != QueueState::ready) {
        port_.counters.drop_queue_not_ready++;
        watch_.not_ready(rq);
        return {};
    }
    const Cut cut = this->cut(rq, frame);
    if (!has_room(rq, cut.bytes)) {
        find_no_request(rq, frame, labels);
        return {};
    }
    claim_more(rq, cut.bytes);
    const std::span<const iovec> pieces = cut.gathered ? cut_.pieces() : frame.pieces();
    const ReceiveFault fault = rq.injected ? ReceiveFault::injected
                               : pieces.size() == 1
                                   ? fill(rq, FlatCursor(pieces.front().iov_base), cut.bytes)
                                   : fill(rq, PieceCursor(pieces), cut.bytes);
    if (fault != ReceiveFault::none) {
        port_.counters.drop_rx_error++;
        watch_.failed(rq, fault);
        fail(rq, fault);
        return {};
    }
    return cut;
}

/// Assumes that packets are like the present one, of `bytes` bytes.
template <Rings R, class W> void Placer<R, W>::look_ahead(Rq& rq, uint32_t bytes) {
    const uint64_t position = rq.counters.wqes;
    uint64_t end = rq.posted.end(position, control_calls_);
    if (rq.pending() < PostedBuffers::kMost) read_doorbell(rq);
    if (rq.pending() == 0) return; // there were none, or the queue failed
    const uint64_t last = position + std::min<uint64_t>(rq.pending(), PostedBuffers::kMost);
    const auto from = static_cast<uint32_t>(end - position);
    KeyWindow window;
    for (; end < last; end++) {
        const PostedBuffer buffer = find_buffer(rq, static_cast<uint32_t>(end - position), window);
        rq.posted.set(end, buffer);
        if (bytes <= kFewBytes) claim(buffer, bytes);
    }
    rq.posted.keep_until(end, control_calls_);
    const auto to = static_cast<uint32_t>(end - position);
    // For the next time.
    Ring::fetch_requests(rq, to, std::min<uint32_t>(rq.pending() - to, to - from));
}

template <Rings R, class W>
PostedBuffer Placer<R, W>::find_buffer(const Rq& rq, uint32_t ahead, KeyWindow& window) const {
    const Segment segment = Ring::buffer_ahead(rq, ahead);
    const auto find = [&] { return window.find(segment.lkey, segment.address, segment.bytes); };
    std::byte* to = find();
    if (!to) {
        window = mkeys_.window(segment.lkey, rq.pd, Access::write, segment.address);
        to = find();
    }
    return {to, to ? segment.bytes : 0};
}

template <Rings R, class W> void Placer<R, W>::claim(const PostedBuffer& buffer, uint32_t bytes) {
    claim_lines(buffer.to, std::min(bytes, buffer.bytes));
}

template <Rings R, class W>
void Placer<R, W>::put(const Target& target, const Frame& frame, const Labels& labels) {
    Rq& rq = *target.rq;
    const std::optional<Cut> cut = store(rq, frame, labels);
    if (!cut) return;
    const uint32_t used = rq.striding ? strides_for(rq, cut->bytes) : 0;
    if (!complete(target, frame, *cut, labels, used)) {
        count_out_of_buffer(rq);
        watch_.overrun(rq);
        rq.fail();
        return;
    }
    watch_.placed(rq, cut->bytes, used);
    advance(rq, cut->bytes, used, 1);
}

/// The path of most packets, without what the others need.
template <Rings R, class W>
size_t Placer<R, W>::place_plain(Rq& rq, std::span<const iovec> frames,
                                 const typename FlowCache<R>::Found* found) {
    const auto first_bytes = static_cast<uint32_t>(frames.front().iov_len);
    if (!takes_plain(rq) || !has_request(rq, first_bytes)) return 0;
    const uint64_t position = rq.counters.wqes, known = rq.posted.end(position, control_calls_);
    // No more than kAheadOfFew, so that the lines of later ones are prefetched in time.
    const auto most =
        static_cast<uint32_t>(std::min<uint64_t>({frames.size(), known - position, kAheadOfFew}));
    run_ = {.rq = &rq, .frames = frames, .found = found, .row = typename Ring::Row(rq, most)};
    run_.row.claim();
    placing_ = &rq;
    for (uint32_t i = 0; i < run_.row.size(); i++) {
        const auto bytes = static_cast<uint32_t>(frames[i].iov_len);
        const PostedBuffer& buffer = rq.posted.at(position + i);
        if (buffer.bytes < bytes) break;
        if (bytes > kFewBytes) claim_long(rq, position + i, bytes);
        net::copy_packet(buffer.to, static_cast<const std::byte*>(frames[i].iov_base), bytes);
        run_.copied = i + 1;
    }
    complete_run();
    placing_ = nullptr;
    return end_run();
}

/// All CQEs of a run at once: a polling program keeps reading the lines of the next ones, so they
/// are prefetched for writing no earlier than for the run.
template <Rings R, class W> void Placer<R, W>::complete_run() {
    run_.completing = true;
    const uint64_t time = port_.now();
    for (uint32_t i = 0; i < run_.copied; i++) {
        const typename FlowCache<R>::Found& found = run_.found[i];
        run_.row.complete(i, found.flow->completion,
                          {.verdict = found.verdict,
                           .bytes = static_cast<uint32_t>(run_.frames[i].iov_len),
                           .has_payload = found.has_payload(),
                           .time = time});
        run_.placed = i + 1;
    }
}

template <Rings R, class W> size_t Placer<R, W>::end_run() {
    if (!run_.rq) return 0;
    if (!run_.completing) complete_run(); // those from before a fault
    Rq& rq = *std::exchange(run_.rq, nullptr);
    // The one in progress has arrived, too.
    const uint32_t placed = run_.placed, arrived = placed + (placing_ ? 1 : 0);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < arrived; i++) {
        const iovec& frame = run_.frames[i];
        port_.count_received_kind(frame);
        run_.found[i].flow->count(static_cast<uint32_t>(frame.iov_len));
        bytes += frame.iov_len;
    }
    port_.count_received(arrived, bytes);
    if (arrived > placed) bytes -= run_.frames[placed].iov_len;
    if (placed == 0) return 0;
    Ring::Row::end(rq, placed);
    rq.held_since = 0;
    rq.gave_up = false;
    rq.consumer = static_cast<uint16_t>(rq.consumer + placed);
    rq.counters.wqes += placed;
    count_delivered(rq, placed, placed, bytes);
    return placed;
}

template <Rings R, class W>
void Placer<R, W>::advance(Rq& rq, uint32_t bytes, uint32_t strides, uint32_t packets) {
    rq.next_stride += strides;
    if (!rq.striding || rq.next_stride == 1u << rq.strides.log_strides) {
        rq.next_stride = 0;
        rq.consumer++;
        rq.counters.wqes++;
    }
    count_delivered(rq, 1, packets, bytes);
}

template <Rings R, class W>
typename Placer<R, W>::Cut Placer<R, W>::gather_cut(const Rq& rq, const Frame& frame) {
    const bool strips = rq.vlan_strip && frame.headers().first_tag == net::kEtherVlan;
    if (!strips && !rq.scatter_fcs) return {frame.bytes()};

    cut_.clear();
    PieceCursor cursor(frame.pieces());
    uint32_t rest = frame.bytes();
    bool fits = true;
    if (strips) {
        cursor.copy(kMacs, macs_.data());
        cursor.skip(net::kVlanBytes);
        rest -= kMacs + net::kVlanBytes;
        fits = cut_.add(macs_.data(), kMacs);
    }
    fits = fits && cursor.take(rest, cut_);
    if (rq.scatter_fcs) {
        uint32_t crc = 0; // the wire's: it covers the tag
        for (const iovec& piece : frame.pieces())
            crc = net::crc32(crc, piece.iov_base, piece.iov_len);
        for (size_t i = 0; i < fcs_.size(); i++)
            fcs_[i] = static_cast<std::byte>(crc >> (8 * i));
        fits = fits && cut_.add(fcs_.data(), static_cast<uint32_t>(fcs_.size()));
    }
    if (!fits) return {frame.bytes()}; // hundreds of pieces: does not happen
    return {cut_.length(), strips, true};
}

template <Rings R, class W>
template <class Bytes>
ReceiveFault Placer<R, W>::fill(const Rq& rq, Bytes cursor, uint32_t bytes) {
    if (rq.posted.knows(rq.counters.wqes, control_calls_)) {
        const PostedBuffer& buffer = rq.posted.at(rq.counters.wqes);
        if (bytes <= buffer.bytes) {
            cursor.copy(bytes, buffer.to);
            return ReceiveFault::none;
        }
    }
    return rq.striding ? scatter_strides(rq, cursor, bytes)
                       : scatter(rq, typename Ring::Buffers(rq), cursor, bytes);
}

template <Rings R, class W>
template <class Buffers, class Bytes>
ReceiveFault Placer<R, W>::scatter(const Rq& rq, Buffers buffers, Bytes cursor, uint32_t bytes) {
    uint32_t left = bytes;
    for (Segment buffer; left != 0;) {
        if (!buffers.next(buffer)) return ReceiveFault::too_short;
        const uint32_t part = std::min(buffer.bytes, left);
        if (!write(rq, buffer.lkey, buffer.address, part, cursor)) return ReceiveFault::protection;
        left -= part;
    }
    return ReceiveFault::none;
}

template <Rings R, class W>
template <class Bytes>
ReceiveFault Placer<R, W>::scatter_strides(const Rq& rq, Bytes cursor, uint32_t bytes,
                                           uint32_t taken) {
    const uint32_t needed = strides_for(rq, taken + bytes);
    const Segment buffer = Ring::strided_buffer(rq);
    const uint64_t offset = (uint64_t{rq.next_stride} << rq.strides.log_stride_bytes) +
                            (rq.strides.two_byte_shift ? 2 : 0) + taken;
    if (needed > 1u << rq.strides.log_strides || taken + bytes > Ring::kMaxStridedBytes ||
        offset + bytes > buffer.bytes)
        return ReceiveFault::too_short;
    return write(rq, buffer.lkey, buffer.address + offset, bytes, cursor)
               ? ReceiveFault::none
               : ReceiveFault::protection;
}

template <Rings R, class W>
template <class Bytes>
bool Placer<R, W>::write(const Rq& rq, uint32_t lkey, uint64_t address, uint32_t bytes,
                         Bytes& from) {
    return mkeys_.translate(lkey, rq.pd, Access::write, address, bytes,
                            [&](std::byte* to, uint32_t part) {
                                from.copy(part, to);
                                return true;
                            });
}

/// Describes the packet, or its tunnel's payload: "sound" then requires both outer and inner
/// headers to be sound.
template <Rings R, class W>
bool Placer<R, W>::complete(const Target& target, const Frame& frame, const Cut& cut,
                            const Labels& labels, uint32_t strides) {
    const net::Headers& outer = frame.headers();
    ChecksumVerdict verdict = frame.verify(outer);
    net::Headers inner;
    if (target.inner) {
        inner = frame.inner_headers();
        const ChecksumVerdict inside = frame.verify(inner);
        verdict.l3_ok = verdict.l3_ok && inside.l3_ok;
        verdict.l4_ok = (verdict.l4_ok || outer.l4 == 0) && inside.l4_ok;
    }
    return Ring::complete(*target.rq, {.target = target,
                                       .outer = outer,
                                       .headers = target.inner ? inner : outer,
                                       .verdict = verdict,
                                       .bytes = cut.bytes,
                                       .tag = labels.tag,
                                       .metadata = labels.metadata,
                                       .vlan_stripped = cut.vlan_stripped,
                                       .strides = strides,
                                       .time = port_.now()});
}

template <Rings R, class W> void Placer<R, W>::fail(Rq& rq, ReceiveFault fault) {
    if (rq.coalescing) sessions_.abandon(rq, port_.counters.drop_rx_error);
    rq.enter_error();
    write_error(rq, fault == ReceiveFault::injected ? *rq.injected : error_of(fault), fault);
    rq.injected.reset();
    rq.consumer++;
    rq.counters.wqes++;
    rq.next_stride = 0;
}

template <Rings R, class W> size_t Placer<R, W>::flush(Rq& rq) {
    read_doorbell(rq);
    size_t flushed = 0;
    for (; rq.pending() != 0 && Ring::may_flush(rq); flushed++) {
        write_error(rq, CompletionError::flushed, ReceiveFault::none);
        rq.consumer++;
        rq.counters.wqes++;
    }
    return flushed;
}

template <Rings R, class W>
void Placer<R, W>::write_error(Rq& rq, CompletionError error, ReceiveFault fault) {
    if (Ring::complete(rq, error, fault))
        rq.counters.error_cqes++;
    else
        rq.fail();
}

} // namespace softhca::core
