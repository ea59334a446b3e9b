// SPDX-License-Identifier: BSD-3-Clause
// The members of Sender for virtio queues, for the file that instantiates it for a ring format.
#pragma once

#include "app/softhca/core/send_impl.hpp"

namespace softhca::core {

/// Completes the checksum that a driver has begun: its field holds the sum of the pseudo-header.
/// False: the frame's first bytes do not include that field.
[[nodiscard]] inline bool complete_checksum(Gather& frame, HeaderBuffer& header, uint32_t start,
                                            uint32_t offset) {
    const uint32_t field = start + offset, head = field + sizeof(uint16_t);
    if (head > frame.length() || head > HeaderBuffer::kCapacity) return false;
    frame.pop_front(header.data(), head);
    frame.push_front(header.data(), head);
    // Nothing says whether it is UDP; in TCP the other zero is just as correct.
    net::store_be(header.data() + field,
                  sum_range(frame.pieces(), start, frame.length() - start).checksum_not_zero());
    return true;
}

template <Rings R, class W> size_t Sender<R, W>::run_chains(Sq& sq, size_t budget) {
    current_ = &sq;
    Virtq& virtq = *sq.virtq;
    size_t work = 0;
    while (work < budget && virtq.serves() && virtq.has_chain()) {
        const Step step = execute_chain(sq, budget - work);
        if (!step.complete) {
            work += step.packets;
            watch_.leaves(sq);
            break;
        }
        work += std::max<size_t>(step.packets, virtq.chain_descriptors());
        use_chain(sq);
    }
    return work;
}

template <Rings R, class W> void Sender<R, W>::use_chain(Sq& sq) {
    sq.sent = 0;
    sq.counters.wqes++;
    sq.virtq->use_chain(0);
    watch_.used(sq);
}

/// An owner that continues with another queue starts at a chain, and would send its first packets
/// again.
template <Rings R, class W> void Sender<R, W>::end_chain(Sq& sq) {
    if ((sq.sent == 0 && !sq.progress.begun()) || !sq.virtq->has_chain()) return;
    current_ = &sq;
    const Step step = execute_chain(sq, SIZE_MAX);
    if (!sq.virtq->serves()) return;
    if (!step.complete) port_.counters.drop_tx_wire += step.left;
    sq.progress.clear();
    use_chain(sq);
}

/// Also not complete when it puts the queue into error.
template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute_chain(Sq& sq, size_t budget) {
    Virtq& virtq = *sq.virtq;
    virtio::NetHeader header;
    if (!virtq.gather(frame_, header)) return {};
    if (header.gso_type != virtio::kGsoNone) return execute_tso_chain(sq, header, budget);
    const bool sums = header.flags & virtio::kNeedsChecksum;
    if (sums &&
        !(virtq.attr().checksums &&
          complete_checksum(frame_, header_, header.checksum_start, header.checksum_offset))) {
        virtq.fail(VirtqFault::invalid_buffer);
        return {};
    }
    SendRequest request;
    request.kind = SendRequest::Kind::packet;
    if (!send_frame(sq, frame_, request)) return {.left = 1};
    return {.complete = true, .packets = 1};
}

/// The headers themselves determine where they end: `header_bytes` is a hint.
template <Rings R, class W>
typename Sender<R, W>::Step Sender<R, W>::execute_tso_chain(Sq& sq, const virtio::NetHeader& header,
                                                            size_t budget) {
    Virtq& virtq = *sq.virtq;
    const bool allowed = header.gso_type == virtio::kGsoTcp4   ? virtq.attr().tso_ipv4
                         : header.gso_type == virtio::kGsoTcp6 ? virtq.attr().tso_ipv6
                                                               : false;
    const uint32_t head = std::min(frame_.length(), net::kParseBytes);
    frame_.pop_front(chain_header_.data(), head);
    const uint32_t bytes = net::parse_template(std::span(chain_header_).first(head)).payload;
    SendRequest request;
    request.kind = SendRequest::Kind::tso;
    request.mss = header.segment_bytes;
    request.offloads.checksums = SendOffloads::kL3 | SendOffloads::kL4;
    request.header = std::span(chain_header_).first(bytes);
    const auto segments = tso_header(request.header, port_.vxlan_ports());
    if (!allowed || request.mss == 0 || !segments) {
        virtq.fail(VirtqFault::invalid_buffer);
        return {};
    }
    payload_.clear();
    bool fits = head == bytes || payload_.add(chain_header_.data() + bytes, head - bytes);
    for (const iovec& piece : frame_.pieces())
        fits = fits && payload_.add(piece.iov_base, static_cast<uint32_t>(piece.iov_len));
    if (!fits) {
        virtq.fail(VirtqFault::chain_too_long);
        return {};
    }
    const Step step = send_segments(sq, request, *segments, budget);
    if (step.fault != SendFault::none) virtq.fail(VirtqFault::chain_too_long);
    return step;
}

} // namespace softhca::core
