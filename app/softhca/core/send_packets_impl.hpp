// SPDX-License-Identifier: BSD-3-Clause
// The members of Sender for requests with a packet in each segment, for the file that instantiates
// it for a ring format.
#pragma once

#include "app/softhca/core/send_impl.hpp"

#include <concepts>

namespace softhca::core {

/// One segment per packet, and the offloads concern all of them. All segments are checked before a
/// packet leaves, which also prefetches the packets.
template <Rings R, class W> SendFault Sender<R, W>::gather_packets(const Sq& sq) {
    uint32_t packets = 0;
    bool all_whole = true;
    KeyWindow window;
    for (Cursor at = ring_.first(); !ring_.at_end(at); packets++) {
        segments_[packets] = at;
        Segment segment;
        if (const auto fault = ring_.next(at, segment); fault != SendFault::none) return fault;
        if (segment.bytes == 0) return SendFault::no_data;
        if (segment.bytes > Limits::kMaxTsoBytes) return SendFault::too_long;
        const std::byte* whole = segment.inlined;
        if (!whole) {
            whole = window.find(segment.lkey, segment.address, segment.bytes);
            if (!whole && !find_whole(sq, segment, window, whole)) return SendFault::protection;
            __builtin_prefetch(whole);
        }
        whole_[packets] = {const_cast<std::byte*>(whole), segment.bytes};
        all_whole &= whole != nullptr;
    }
    packets_ = packets;
    all_whole_ = all_whole;
    return packets == 0 ? SendFault::no_data : SendFault::none;
}

/// Finds the memory of a segment, null when it is in several pieces, and the window that contains
/// it. False: the key does not allow it.
template <Rings R, class W>
bool Sender<R, W>::find_whole(const Sq& sq, const Segment& segment, KeyWindow& window,
                              const std::byte*& whole) {
    window = mkeys_.window(segment.lkey, sq.pd, Access::read, segment.address);
    return mkeys_.translate(segment.lkey, sq.pd, Access::read, segment.address, segment.bytes,
                            [&](const std::byte* piece, uint32_t bytes) {
                                whole = bytes == segment.bytes ? piece : nullptr;
                                return true;
                            });
}

template <Rings R, class W> bool Sender<R, W>::is_batch(const Sq& sq) const {
    return std::same_as<W, NoWatch> && all_whole_ && sq.rate_kbps == 0 &&
           !ring_.request().offloads.any() && !port_.loops() && !receiver_.steers_sent() &&
           !receiver_.sniffs_sent();
}

template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::send_batch(Sq& sq, size_t budget) {
    // The program may have made the request shorter since a part of it left.
    if (sq.sent >= packets_) return {.complete = true};
    const size_t most = std::min<size_t>(packets_ - sq.sent, budget);
    const size_t sent = port_.transmit_batch({whole_.data() + sq.sent, most});
    return {.complete = end_batch(sq, sent) == packets_, .packets = sent};
}

/// Returns how many packets of the request have left so far.
template <Rings R, class W> size_t Sender<R, W>::end_batch(Sq& sq, size_t sent) {
    for (size_t i = 0; i < sent; i++)
        sq.counters.bytes += whole_[sq.sent + i].iov_len;
    sq.counters.packets += sent;
    return sq.sent += static_cast<uint32_t>(sent);
}

template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute_packets(Sq& sq, size_t budget) {
    if (!ring_.request().header.empty()) return {SendFault::bad_eth_segment};
    if (const SendFault fault = gather_packets(sq); fault != SendFault::none) return {fault};
    if (is_batch(sq)) return send_batch(sq, budget);
    Step step;
    for (uint32_t packet = sq.sent; packet < packets_; packet++) {
        frame_.clear();
        if (const iovec& whole = whole_[packet]; whole.iov_base) {
            std::ignore = frame_.add(whole.iov_base, static_cast<uint32_t>(whole.iov_len));
        } else { // in several pages
            Cursor at = segments_[packet];
            if (const auto fault = gather_segment(sq, at, frame_); fault != SendFault::none)
                return {.fault = fault, .packets = step.packets}; // in too many pieces
        }
        if (step.packets == budget || !send_frame(sq, frame_, ring_.request())) return step;
        step.packets++;
    }
    step.complete = true;
    return step;
}

} // namespace softhca::core
