// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/place.hpp"

#include "common/net/checksum.hpp"

#include <cstring>
#include <tuple>
#include <utility>

namespace softhca::core {
namespace {

constexpr uint32_t kMacs = 12; // bytes in front of a VLAN tag

mlx5::CqeSyndrome syndrome_of(ReceiveFault fault) {
    switch (fault) {
    case ReceiveFault::protection: return mlx5::CqeSyndrome::local_protection;
    case ReceiveFault::too_short: return mlx5::CqeSyndrome::local_length;
    default: return mlx5::CqeSyndrome::local_qp_operation;
    }
}

mlx5::CqeL4 l4_type(const net::Headers& headers) {
    if (headers.l4 == 0 || headers.fragment) return mlx5::CqeL4::none;
    if (headers.ip_proto == net::kProtoUdp) return mlx5::CqeL4::udp;
    if (!(headers.tcp_flags & net::kTcpAck)) return mlx5::CqeL4::tcp_no_ack;
    const bool data = headers.payload < headers.l3 + headers.ip_bytes;
    return data ? mlx5::CqeL4::tcp_ack_data : mlx5::CqeL4::tcp_ack;
}

uint8_t type_bits(const net::Headers& headers) {
    const auto l3 = headers.ip_version == 4   ? mlx5::CqeL3::ipv4
                    : headers.ip_version == 6 ? mlx5::CqeL3::ipv6
                                              : mlx5::CqeL3::none;
    return static_cast<uint8_t>((headers.fragment ? mlx5::kIpFragment : 0) |
                                static_cast<uint8_t>(l4_type(headers)) << 4 |
                                static_cast<uint8_t>(l3) << 2);
}

mlx5::WqeDataSeg load_segment(const Rq& rq, uint64_t at) {
    mlx5::WqeDataSeg segment; // 16-byte aligned in the ring: it crosses no page
    std::memcpy(&segment, rq.ring.at(at), sizeof segment);
    return segment;
}

/// What a receive segment can hold; zero stands for 2^31.
uint32_t capacity(const mlx5::WqeDataSeg& segment) {
    const uint32_t bytes = segment.byte_count & ~mlx5::kInlineFlag;
    return bytes != 0 ? bytes : 1u << 31;
}

uint64_t wqe_at(const Rq& rq) { return rq.slot() << rq.log_wqe_bytes; }

} // namespace

void Placer::read_doorbell(Rq& rq) {
    const auto producer = static_cast<uint16_t>(
        net::to_be(__atomic_load_n(&rq.doorbell->receive.raw, __ATOMIC_ACQUIRE)));
    if (producer == rq.producer) return;
    rq.producer = producer;
    rq.counters.doorbells++;
    if (rq.pending() <= rq.entries()) return;
    if (rq.state == QueueState::ready) fail(rq, ReceiveFault::doorbell_jump);
    rq.consumer = producer; // nothing up to here can be trusted
}

uint32_t Placer::strides_for(const Rq& rq, uint32_t bytes) const {
    const uint32_t shift = rq.strides.two_byte_shift ? 2 : 0;
    return (bytes + shift + (1u << rq.strides.log_stride_bytes) - 1) >> rq.strides.log_stride_bytes;
}

bool Placer::has_room(Rq& rq, uint32_t bytes) {
    if (rq.pending() == 0) read_doorbell(rq);
    if (rq.pending() == 0) return false;
    if (!rq.striding || rq.next_stride == 0) return true;
    const uint32_t strides = 1u << rq.strides.log_strides;
    if (rq.next_stride + strides_for(rq, bytes) <= strides) return true;
    if (!write_filler(rq)) return false;
    if (rq.pending() == 0) read_doorbell(rq);
    return rq.pending() != 0;
}

/// Tells that the rest of the current striding WQE stays unused, and leaves it.
bool Placer::write_filler(Rq& rq) {
    constexpr uint32_t kFiller = 1u << 31;
    const uint32_t unused = (1u << rq.strides.log_strides) - rq.next_stride;
    const bool written = rq.cq->write<mlx5::Cqe>(
        mlx5::CqeOpcode::resp_send, 0, static_cast<uint16_t>(rq.next_stride), [&](mlx5::Cqe& cqe) {
            cqe.wqe_id = rq.consumer;
            cqe.srqn_uidx = rq.user_index;
            cqe.byte_count = kFiller | unused << 16;
            cqe.timestamp = port_.now();
        });
    rq.next_stride = 0;
    rq.consumer++;
    rq.counters.wqes++;
    if (written)
        rq.counters.cqes++;
    else
        rq.fail();
    return written;
}

void Placer::fail_for_memory() {
    Rq& rq = *placing_;
    abandon();
    if (rq.state == QueueState::ready) fail(rq, ReceiveFault::protection);
}

void Placer::abandon() {
    if (std::exchange(placing_, nullptr)) port_.counters.drop_rx_error++;
}

void Placer::put(const Target& target, const Packet& packet, uint32_t tag) {
    Rq& rq = *target.rq;
    if (rq.state != QueueState::ready) {
        port_.counters.drop_queue_not_ready++;
        return;
    }
    const Cut cut = this->cut(rq, packet);
    if (!has_room(rq, cut.bytes)) {
        port_.counters.drop_out_of_buffer++;
        rq.counters.out_of_buffer++;
        return;
    }
    const ReceiveFault fault = rq.injected   ? ReceiveFault::injected
                               : rq.striding ? scatter_strides(rq, cut)
                                             : scatter(rq, cut);
    if (fault != ReceiveFault::none) {
        port_.counters.drop_rx_error++;
        fail(rq, fault);
        return;
    }

    const uint32_t used = rq.striding ? strides_for(rq, cut.bytes) : 0;
    const auto counter = rq.striding ? static_cast<uint16_t>(rq.next_stride) : rq.consumer;
    const bool written = rq.cq->write<mlx5::Cqe>(
        mlx5::CqeOpcode::resp_send, tag & mlx5::kFlowTagMask, counter, [&](mlx5::Cqe& cqe) {
            describe(target, packet, cut, cqe);
            cqe.byte_count = used << 16 | cut.bytes;
            if (rq.striding) cqe.wqe_id = rq.consumer;
        });
    if (!written) {
        port_.counters.drop_out_of_buffer++;
        rq.counters.out_of_buffer++;
        rq.fail();
        return;
    }
    rq.next_stride += used;
    if (!rq.striding || rq.next_stride == 1u << rq.strides.log_strides) {
        rq.next_stride = 0;
        rq.consumer++;
        rq.counters.wqes++;
    }
    rq.counters.cqes++;
    rq.counters.packets++;
    rq.counters.bytes += cut.bytes;
    port_.counters.delivered++;
}

Placer::Cut Placer::cut(const Rq& rq, const Packet& packet) {
    Cut cut{packet.pieces(), packet.bytes()};
    cut.vlan_stripped = rq.vlan_strip && packet.headers().first_tag == net::kEtherVlan;
    if (!cut.vlan_stripped && !rq.scatter_fcs) return cut;

    cut_.clear();
    PieceCursor cursor(packet.pieces());
    uint32_t rest = packet.bytes();
    bool fits = true;
    if (cut.vlan_stripped) {
        cursor.copy(kMacs, macs_.data());
        cursor.skip(net::kVlanBytes);
        rest -= kMacs + net::kVlanBytes;
        fits = cut_.add(macs_.data(), kMacs);
    }
    fits = fits && cursor.take(rest, cut_);
    if (rq.scatter_fcs) {
        uint32_t crc = 0; // the wire's: it covers the tag
        for (const iovec& piece : packet.pieces())
            crc = net::crc32(crc, piece.iov_base, piece.iov_len);
        for (size_t i = 0; i < fcs_.size(); i++)
            fcs_[i] = static_cast<std::byte>(crc >> (8 * i));
        fits = fits && cut_.add(fcs_.data(), static_cast<uint32_t>(fcs_.size()));
    }
    if (!fits) return {packet.pieces(), packet.bytes()}; // hundreds of pieces: does not happen
    return {cut_.pieces(), cut_.length(), cut.vlan_stripped};
}

ReceiveFault Placer::scatter(const Rq& rq, const Cut& cut) {
    PieceCursor cursor(cut.pieces);
    uint32_t left = cut.bytes;
    const uint64_t wqe = wqe_at(rq);
    const uint64_t end = wqe + (uint64_t{1} << rq.log_wqe_bytes);
    for (uint64_t at = wqe; left != 0; at += sizeof(mlx5::WqeDataSeg)) {
        if (at == end) return ReceiveFault::too_short;
        const mlx5::WqeDataSeg segment = load_segment(rq, at);
        if (segment.lkey == mlx5::kInvalidLkey) return ReceiveFault::too_short;
        const uint32_t part = std::min(capacity(segment), left);
        const bool mapped = mkeys_.translate(segment.lkey, rq.pd, Access::write, segment.addr, part,
                                             [&](std::byte* to, uint32_t bytes) {
                                                 cursor.copy(bytes, to);
                                                 return true;
                                             });
        if (!mapped) return ReceiveFault::protection;
        left -= part;
    }
    return ReceiveFault::none;
}

ReceiveFault Placer::scatter_strides(const Rq& rq, const Cut& cut) {
    const uint32_t needed = strides_for(rq, cut.bytes);
    const mlx5::WqeDataSeg segment = load_segment(rq, wqe_at(rq) + sizeof(mlx5::WqeNextSeg));
    const uint64_t offset = (uint64_t{rq.next_stride} << rq.strides.log_stride_bytes) +
                            (rq.strides.two_byte_shift ? 2 : 0);
    if (needed > 1u << rq.strides.log_strides || cut.bytes > mlx5::kByteCountMask ||
        offset + cut.bytes > capacity(segment))
        return ReceiveFault::too_short;
    PieceCursor cursor(cut.pieces);
    const bool mapped = mkeys_.translate(segment.lkey, rq.pd, Access::write, segment.addr + offset,
                                         cut.bytes, [&](std::byte* to, uint32_t bytes) {
                                             cursor.copy(bytes, to);
                                             return true;
                                         });
    return mapped ? ReceiveFault::none : ReceiveFault::protection;
}

/// The fields of the CQE that tell about the packet.
void Placer::describe(const Target& target, const Packet& packet, const Cut& cut, mlx5::Cqe& cqe) {
    const net::Headers& outer = packet.headers();
    ChecksumVerdict verdict = packet.verify(outer);
    cqe.check_sum = verdict.l3_sum;
    net::Headers inner;
    if (target.inner) { // sound is what is sound outside and inside
        inner = packet.inner_headers();
        cqe.packet_info =
            static_cast<uint8_t>(mlx5::kTunnelled | (outer.ip_version == 6 ? mlx5::kOuterIpv6 : 0));
        const ChecksumVerdict inside = packet.verify(inner);
        verdict.l3_ok = verdict.l3_ok && inside.l3_ok;
        verdict.l4_ok = (verdict.l4_ok || outer.l4 == 0) && inside.l4_ok;
    }
    const net::Headers& headers = target.inner ? inner : outer;
    cqe.rx_hash_result = target.hash;
    cqe.rx_hash_type = target.hash_type;
    cqe.hds_ip_ext = static_cast<uint8_t>(mlx5::kL2Ok | (verdict.l3_ok ? mlx5::kL3Ok : 0) |
                                          (verdict.l4_ok ? mlx5::kL4Ok : 0));
    cqe.l4_l3_type =
        static_cast<uint8_t>(type_bits(headers) | (cut.vlan_stripped ? mlx5::kVlanStripped : 0));
    if (cut.vlan_stripped) cqe.vlan_info = outer.vlan_tci;
    cqe.srqn_uidx = target.rq->user_index;
    cqe.metadata = packet.key().meta.reg_b;
    cqe.timestamp = port_.now();
}

void Placer::fail(Rq& rq, ReceiveFault fault) {
    rq.enter_error();
    write_error(rq, fault == ReceiveFault::injected ? *rq.injected : syndrome_of(fault), fault);
    rq.injected.reset();
    rq.consumer++;
    rq.counters.wqes++;
    rq.next_stride = 0;
}

size_t Placer::flush(Rq& rq) {
    read_doorbell(rq);
    size_t flushed = 0;
    for (; rq.pending() != 0 && rq.cq->has_room(1); flushed++) {
        write_error(rq, mlx5::CqeSyndrome::flushed, ReceiveFault::none);
        rq.consumer++;
        rq.counters.wqes++;
    }
    return flushed;
}

void Placer::write_error(Rq& rq, mlx5::CqeSyndrome syndrome, ReceiveFault fault) {
    const bool written = rq.cq->write<mlx5::ErrorCqe>(
        mlx5::CqeOpcode::resp_error, rq.number, rq.consumer, [&](mlx5::ErrorCqe& cqe) {
            cqe.srqn_uidx = rq.user_index;
            cqe.vendor_syndrome = static_cast<uint8_t>(fault);
            cqe.syndrome = static_cast<uint8_t>(syndrome);
        });
    if (written)
        rq.counters.error_cqes++;
    else
        rq.fail();
}

} // namespace softhca::core
