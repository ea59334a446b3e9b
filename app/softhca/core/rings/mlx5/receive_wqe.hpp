// SPDX-License-Identifier: BSD-3-Clause
// Receive WQEs of the mlx5 format as buffers, and CQEs that describe packets.
#pragma once

#include "app/softhca/core/requests.hpp"
#include "app/softhca/core/rings/mlx5/cq.hpp"
#include "app/softhca/core/rings/mlx5/syndrome.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace softhca::core::mlx5_rings {

/// The state of receive WQEs is in the ring and the RQ, so this class has none.
class ReceiveWqe {
  public:
    static constexpr uint32_t kMaxStridedBytes = mlx5::kByteCountMask;

    [[nodiscard]] static uint16_t posted(const Rq& rq) {
        return static_cast<uint16_t>(net::to_be(rq.doorbell.load()));
    }
    [[nodiscard]] static bool may_flush(Rq& rq) { return cq_of(rq).may_flush(); }

    /// The scatter list; an invalid lkey may end it before the end of the WQE.
    class Buffers {
      public:
        explicit Buffers(const Rq& rq)
            : rq_(rq), at_(wqe_at(rq)), end_(at_ + (uint64_t{1} << rq.log_wqe_bytes)) {}
        [[nodiscard]] bool next(Segment& segment) {
            if (at_ == end_) return false;
            segment = load_segment(rq_, at_);
            at_ += sizeof(mlx5::WqeDataSeg);
            return segment.lkey != mlx5::kInvalidLkey;
        }

      private:
        const Rq& rq_;
        uint64_t at_, end_;
    };
    /// The first buffer of a request after the current one, which must be posted.
    [[nodiscard]] static Segment buffer_ahead(const Rq& rq, uint32_t requests) {
        return load_segment(rq, wqe_at(rq, requests));
    }
    /// Prefetches the lines of this many requests after the current one, which must be posted.
    static void fetch_requests(const Rq& rq, uint32_t ahead, uint32_t count) {
        const uint32_t in_line = std::max<uint32_t>(1, kLineBytes >> rq.log_wqe_bytes);
        for (uint32_t i = 0; i < count; i += in_line)
            __builtin_prefetch(rq.ring.at(wqe_at(rq, ahead + i)));
    }
    static void claim_completion(Rq& rq, uint32_t ahead) { cq_of(rq).claim(ahead); }
    [[nodiscard]] static Segment strided_buffer(const Rq& rq) {
        return load_segment(rq, wqe_at(rq) + sizeof(mlx5::WqeNextSeg));
    }

    struct Prepared {
        mlx5::Cqe cqe;
        uint8_t types_without_payload;
    };
    [[nodiscard]] static Prepared prepare(const Received& received);
    class Row;
    [[nodiscard]] static bool complete(Rq& rq, const Received& received);
    [[nodiscard]] static bool complete(Rq& rq, const Received& received, const LroSummary& summary);
    [[nodiscard]] static bool complete_message(Rq& rq, uint64_t time);
    [[nodiscard]] static bool complete_unused(Rq& rq, uint32_t strides, uint64_t time);
    [[nodiscard]] static bool complete(Rq& rq, CompletionError error, ReceiveFault fault);

  private:
    [[nodiscard]] static uint64_t wqe_at(const Rq& rq, uint32_t ahead = 0) {
        return rq.slot(ahead) << rq.log_wqe_bytes;
    }
    [[nodiscard]] static Segment load_segment(const Rq& rq, uint64_t at);
    [[nodiscard]] static uint8_t soundness_of(const ChecksumVerdict& verdict) {
        return static_cast<uint8_t>(mlx5::kL2Ok | (verdict.l3_ok ? mlx5::kL3Ok : 0) |
                                    (verdict.l4_ok ? mlx5::kL4Ok : 0));
    }
    static void describe(const Received& received, mlx5::Cqe& cqe);
    static void describe(const LroSummary& summary, mlx5::Cqe& cqe);
    template <class Fill>
    [[nodiscard]] static bool complete_with(Rq& rq, const Received& received, Fill&& fill);
};

static_assert(Limits::kMaxFlowTag == mlx5::kFlowTagMask);

inline Segment ReceiveWqe::load_segment(const Rq& rq, uint64_t at) {
    mlx5::WqeDataSeg segment; // 16-byte aligned in the ring: it crosses no page
    std::memcpy(&segment, rq.ring.at(at), sizeof segment);
    const uint32_t bytes = segment.byte_count & ~mlx5::kInlineFlag;
    return {.bytes = bytes != 0 ? bytes : 1u << 31, .lkey = segment.lkey, .address = segment.addr};
}

[[nodiscard]] inline mlx5::CqeL4 l4_type(const net::Headers& headers, bool has_payload) {
    if (headers.l4 == 0 || headers.fragment) return mlx5::CqeL4::none;
    if (headers.ip_proto == net::kProtoUdp) return mlx5::CqeL4::udp;
    if (!(headers.tcp_flags & net::kTcpAck)) return mlx5::CqeL4::tcp_no_ack;
    return has_payload ? mlx5::CqeL4::tcp_ack_data : mlx5::CqeL4::tcp_ack;
}

[[nodiscard]] inline uint8_t type_bits(const net::Headers& headers, bool has_payload) {
    const auto l3 = headers.ip_version == 4   ? mlx5::CqeL3::ipv4
                    : headers.ip_version == 6 ? mlx5::CqeL3::ipv6
                                              : mlx5::CqeL3::none;
    return static_cast<uint8_t>((headers.fragment ? mlx5::kIpFragment : 0) |
                                static_cast<uint8_t>(l4_type(headers, has_payload)) << 4 |
                                static_cast<uint8_t>(l3) << 2);
}

/// Cqe::rx_hash_type
[[nodiscard]] inline uint8_t hash_type_of(const Target& target) {
    const uint8_t hashed = target.hash_type;
    const unsigned ip = hashed & kHashIpv6 ? mlx5::kHashedIpv6 : mlx5::kHashedIpv4;
    const unsigned l4 = hashed & kHashSpi   ? mlx5::kHashedSpi
                        : hashed & kHashUdp ? mlx5::kHashedUdp
                                            : mlx5::kHashedTcp;
    constexpr unsigned kSource = kHashSrcPort | kHashSpi, kDestination = kHashDstPort | kHashSpi;
    return static_cast<uint8_t>((hashed & kHashSrcIp ? ip << mlx5::kHashSrcIpShift : 0) |
                                (hashed & kHashDstIp ? ip << mlx5::kHashDstIpShift : 0) |
                                (hashed & kSource ? l4 << mlx5::kHashSrcPortShift : 0) |
                                (hashed & kDestination ? l4 << mlx5::kHashDstPortShift : 0));
}

/// The fields of the CQE that describe the packet.
inline void ReceiveWqe::describe(const Received& received, mlx5::Cqe& cqe) {
    const net::Headers& outer = received.outer;
    const ChecksumVerdict& verdict = received.verdict;
    cqe.check_sum = verdict.l3_sum;
    if (received.target.inner)
        cqe.packet_info =
            static_cast<uint8_t>(mlx5::kTunnelled | (outer.ip_version == 6 ? mlx5::kOuterIpv6 : 0));
    cqe.rx_hash_result = received.target.hash;
    cqe.rx_hash_type = hash_type_of(received.target);
    cqe.hds_ip_ext = soundness_of(verdict);
    cqe.l4_l3_type =
        static_cast<uint8_t>(type_bits(received.headers, received.headers.has_payload()) |
                             (received.vlan_stripped ? mlx5::kVlanStripped : 0));
    if (received.vlan_stripped) cqe.vlan_info = outer.vlan_tci;
    cqe.srqn_uidx = received.target.rq->user_index;
    cqe.metadata = received.metadata;
    cqe.timestamp = received.time;
}

inline void ReceiveWqe::describe(const LroSummary& summary, mlx5::Cqe& cqe) {
    cqe.lro = {.tcppsh_abort_dupack = summary.push ? mlx5::kLroPush : uint8_t{0},
               .min_ttl = summary.min_ttl,
               .tcp_win = summary.window,
               .ack_seq_num = summary.ack};
    cqe.check_sum = summary.payload_sum;
    cqe.srqn_uidx = uint32_t{summary.segments} << mlx5::kLroSegmentsShift | cqe.srqn_uidx;
}

template <class Fill>
bool ReceiveWqe::complete_with(Rq& rq, const Received& received, Fill&& fill) {
    const auto counter = rq.striding ? static_cast<uint16_t>(rq.next_stride) : rq.consumer;
    return cq_of(rq).write<mlx5::Cqe>(mlx5::CqeOpcode::resp_send, received.tag & mlx5::kFlowTagMask,
                                      counter, [&](mlx5::Cqe& cqe) {
                                          describe(received, cqe);
                                          cqe.byte_count = received.strides << 16 | received.bytes;
                                          if (rq.striding) cqe.wqe_id = rq.consumer;
                                          fill(cqe);
                                      });
}

inline ReceiveWqe::Prepared ReceiveWqe::prepare(const Received& received) {
    Prepared prepared{.cqe = {}, .types_without_payload = type_bits(received.headers, false)};
    describe(received, prepared.cqe);
    prepared.cqe.l4_l3_type = type_bits(received.headers, true);
    prepared.cqe.sop_drop_qpn = received.tag & mlx5::kFlowTagMask;
    return prepared;
}

/// See ReceiveRing.
class ReceiveWqe::Row {
  public:
    Row() = default; ///< of none
    Row(Rq& rq, uint32_t most) : row_(cq_of(rq).row(most)), first_(rq.consumer) {}

    [[nodiscard]] uint32_t size() const { return row_.size(); }
    void claim() const { row_.claim(); }
    void complete(uint32_t index, const Prepared& prepared, const ReceivedPlain& received) const {
        row_.write(index, prepared.cqe.sop_drop_qpn, static_cast<uint16_t>(first_ + index),
                   [&](mlx5::Cqe& cqe) {
                       std::memcpy(&cqe, &prepared.cqe, offsetof(mlx5::Cqe, sop_drop_qpn));
                       cqe.check_sum = received.verdict.l3_sum;
                       cqe.hds_ip_ext = soundness_of(received.verdict);
                       if (!received.has_payload) cqe.l4_l3_type = prepared.types_without_payload;
                       cqe.byte_count = received.bytes;
                       cqe.timestamp = received.time;
                   });
    }
    static void end(Rq& rq, uint32_t entries) { cq_of(rq).end_row(entries); }

  private:
    Cq::Row row_;
    uint16_t first_ = 0;
};

inline bool ReceiveWqe::complete(Rq& rq, const Received& received) {
    return complete_with(rq, received, [](mlx5::Cqe&) {});
}

inline bool ReceiveWqe::complete(Rq& rq, const Received& received, const LroSummary& summary) {
    return complete_with(rq, received, [&](mlx5::Cqe& cqe) { describe(summary, cqe); });
}

inline bool ReceiveWqe::complete_unused(Rq& rq, uint32_t strides, uint64_t time) {
    constexpr uint32_t kFiller = 1u << 31;
    return cq_of(rq).write<mlx5::Cqe>(mlx5::CqeOpcode::resp_send, 0,
                                      static_cast<uint16_t>(rq.next_stride), [&](mlx5::Cqe& cqe) {
                                          cqe.wqe_id = rq.consumer;
                                          cqe.srqn_uidx = rq.user_index;
                                          cqe.byte_count = kFiller | strides << 16;
                                          cqe.timestamp = time;
                                      });
}

inline bool ReceiveWqe::complete_message(Rq& rq, uint64_t time) {
    return cq_of(rq).write<mlx5::Cqe>(mlx5::CqeOpcode::resp_send, rq.number, rq.consumer,
                                      [&](mlx5::Cqe& cqe) {
                                          cqe.srqn_uidx = rq.user_index;
                                          cqe.timestamp = time;
                                      });
}

inline bool ReceiveWqe::complete(Rq& rq, CompletionError error, ReceiveFault fault) {
    return cq_of(rq).write<mlx5::ErrorCqe>(
        mlx5::CqeOpcode::resp_error, rq.number, rq.consumer, [&](mlx5::ErrorCqe& cqe) {
            cqe.srqn_uidx = rq.user_index;
            cqe.vendor_syndrome = static_cast<uint8_t>(fault);
            cqe.syndrome = static_cast<uint8_t>(syndrome_of(error));
        });
}

static_assert(ReceiveRing<ReceiveWqe>);

} // namespace softhca::core::mlx5_rings
