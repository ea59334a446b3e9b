// SPDX-License-Identifier: BSD-3-Clause
// The members of Placer that implement LRO, for the file that instantiates it for a ring format.
#pragma once

#include "app/softhca/core/place_impl.hpp"

namespace softhca::core {

/// The buffers of a request after the part that is already used.
template <class Buffers> class BuffersBehind {
  public:
    BuffersBehind(Buffers buffers, uint32_t taken) : buffers_(buffers), taken_(taken) {}
    [[nodiscard]] bool next(Segment& segment) {
        do {
            if (!buffers_.next(segment)) return false;
            const uint32_t part = std::min(taken_, segment.bytes);
            taken_ -= part;
            segment.address += part;
            segment.bytes -= part;
        } while (segment.bytes == 0);
        return true;
    }

  private:
    Buffers buffers_;
    uint32_t taken_;
};

template <Rings R, class W>
void Placer<R, W>::put_or_join(const LroAttr& lro, const Target& target, const Packet& packet,
                               const Labels& labels) {
    Rq& rq = *target.rq;
    if (rq.state != QueueState::ready || !rq.cq || rq.scatter_fcs || rq.injected ||
        !is_coalescible(lro, packet))
        return put(target, packet, labels);
    const ChecksumVerdict verdict = packet.verify(packet.headers());
    if (!verdict.l3_ok || !verdict.l4_ok) return put(target, packet, labels);

    if (rq.coalescing && !rq.lro->is_due(port_.now()) && rq.lro->continues(packet, labels.tag))
        join(rq, packet);
    else
        begin_session(lro, target, packet, labels, verdict);
    if (rq.coalescing && rq.lro->is_complete()) end_session(rq);
}

template <Rings R, class W>
void Placer<R, W>::begin_session(const LroAttr& lro, const Target& target, const Packet& packet,
                                 const Labels& labels, const ChecksumVerdict& verdict) {
    Rq& rq = *target.rq;
    const std::optional<Cut> cut = store(rq, packet, labels);
    if (!cut) return;
    const uint32_t before_tcp = packet.headers().l4 - (cut->vlan_stripped ? net::kVlanBytes : 0);
    if (!rq.lro) rq.lro = std::make_shared<LroSession>();
    rq.lro->begin(packet,
                  {.bytes = cut->bytes,
                   .room = std::min(room_of_request(rq), before_tcp + lro.max_bytes),
                   .tag = labels.tag,
                   .hash = target.hash,
                   .hash_type = target.hash_type,
                   .vlan_stripped = cut->vlan_stripped,
                   .verdict = verdict,
                   .deadline = port_.now() + lro.timeout_ns},
                  port_.now());
    sessions_.open(rq);
    watch_.coalesced(rq);
}

/// The maximum size of a packet that begins with the request, or with its next stride.
template <Rings R, class W> uint32_t Placer<R, W>::room_of_request(const Rq& rq) const {
    uint64_t room = 0;
    if (rq.striding) {
        const uint32_t strides = (1u << rq.strides.log_strides) - rq.next_stride;
        room = (uint64_t{strides} << rq.strides.log_stride_bytes) -
               (rq.strides.two_byte_shift ? 2 : 0);
        room = std::min(room, Ring::strided_buffer(rq).bytes -
                                  (uint64_t{rq.next_stride} << rq.strides.log_stride_bytes) -
                                  (rq.strides.two_byte_shift ? 2 : 0));
        return static_cast<uint32_t>(std::min<uint64_t>(room, Ring::kMaxStridedBytes));
    }
    typename Ring::Buffers buffers(rq);
    for (Segment buffer; buffers.next(buffer);)
        room += buffer.bytes;
    return static_cast<uint32_t>(std::min<uint64_t>(room, UINT32_MAX));
}

template <Rings R, class W> void Placer<R, W>::join(Rq& rq, const Packet& packet) {
    const net::Headers& headers = packet.headers();
    const uint32_t bytes = packet.bytes() - headers.payload, taken = rq.lro->bytes();
    PieceCursor payload(packet.pieces());
    payload.skip(headers.payload);
    using Rest = BuffersBehind<typename Ring::Buffers>;
    const ReceiveFault fault =
        rq.striding ? scatter_strides(rq, payload, bytes, taken)
                    : scatter(rq, Rest(typename Ring::Buffers(rq), taken), payload, bytes);
    if (fault != ReceiveFault::none) {
        port_.counters.drop_rx_error++;
        watch_.failed(rq, fault);
        fail(rq, fault);
        return;
    }
    rq.lro->add(packet, port_.now());
    watch_.coalesced(rq);
}

template <Rings R, class W> void Placer<R, W>::end_session(Rq& rq) {
    PortCounters& counters = port_.counters;
    if (rq.state != QueueState::ready) return sessions_.abandon(rq, counters.drop_queue_not_ready);
    const LroSession& session = *rq.lro;
    const LroSession::First& first = session.first();
    const uint32_t used = rq.striding ? strides_for(rq, session.bytes()) : 0;
    const Target target{.rq = &rq, .hash = first.hash, .hash_type = first.hash_type};
    const Received received{.target = target,
                            .outer = session.headers(),
                            .headers = session.headers(),
                            .verdict = first.verdict,
                            .bytes = session.bytes(),
                            .tag = first.tag,
                            .metadata = session.metadata(),
                            .vlan_stripped = first.vlan_stripped,
                            .strides = used,
                            .time = session.last_arrival()};
    const bool written = session.segments() > 1 ? Ring::complete(rq, received, session.summary())
                                                : Ring::complete(rq, received);
    if (!written) {
        for (uint32_t i = 0; i < session.segments(); i++)
            count_out_of_buffer(rq);
        sessions_.close(rq);
        rq.fail();
        return;
    }
    sessions_.close(rq);
    advance(rq, session.bytes(), used, session.segments());
}

template <Rings R, class W> size_t Placer<R, W>::end_due_sessions() {
    const size_t count = sessions_.queues().size();
    for (size_t i = count; i-- != 0;) { // those that end leave the list
        Rq& rq = *sessions_.queues()[i];
        if (rq.state != QueueState::ready || rq.lro->is_due(port_.now())) end_session(rq);
    }
    return count;
}

/// A packet may end the session, and must then find room after it.
template <Rings R, class W> bool Placer<R, W>::has_room_behind_session(Rq& rq, uint32_t bytes) {
    if (rq.striding && rq.next_stride + strides_for(rq, rq.lro->bytes()) + strides_for(rq, bytes) <=
                           1u << rq.strides.log_strides)
        return true;
    if (rq.pending() < 2) read_doorbell(rq);
    if (rq.pending() >= 2) return true;
    end_session(rq);
    return has_room(rq, bytes);
}

} // namespace softhca::core
