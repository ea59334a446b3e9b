// SPDX-License-Identifier: BSD-3-Clause
// Send WQEs of the mlx5 format as requests, and their CQEs.
#pragma once

#include "app/softhca/core/requests.hpp"
#include "app/softhca/core/rings/mlx5/cq.hpp"
#include "app/softhca/core/rings/mlx5/cross_channel.hpp"
#include "app/softhca/core/rings/mlx5/meters.hpp"
#include "app/softhca/core/rings/mlx5/syndrome.hpp"
#include "app/softhca/core/rings/mlx5/umr.hpp"
#include "common/mlx5/flow_table_access.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace softhca::core::mlx5_rings {

/// Copies `T` from bytes of any alignment.
template <class T> [[nodiscard]] T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// One WQE at a time, fetched whole as the hardware does.
class SendWqe {
  public:
    using Cursor = uint32_t; ///< offset in the WQE
    static constexpr size_t kMaxSegments = mlx5::kMaxWqeSegments;

    [[nodiscard]] static uint16_t posted(const Sq& sq) {
        return sq.managed ? sq.enabled : static_cast<uint16_t>(net::to_be(sq.doorbell.load()));
    }
    [[nodiscard]] static bool may_flush(Sq& sq) { return cq_of(sq).may_flush(); }

    [[nodiscard]] SendFault fetch(const Sq& sq);
    [[nodiscard]] SendFault decode();
    [[nodiscard]] const SendRequest& request() const { return request_; }

    [[nodiscard]] Cursor first() const { return data_at_; }
    [[nodiscard]] bool at_end(Cursor at) const { return at >= size_; }
    [[nodiscard]] SendFault next(Cursor& at, Segment& segment) const;

    [[nodiscard]] MeterBytes read(const std::array<Meter, 2>& meters) const {
        return write_meters(meters);
    }
    void write(std::array<Meter, 2>& meters, uint64_t now) const {
        update_meters(meters, aso_data(bytes()), meter_mask_, now);
    }
    [[nodiscard]] decltype(EditArgument::data) argument() const {
        return load<mlx5::WqeEditArgument>(bytes_.data()).data;
    }
    [[nodiscard]] const KeyChange& key_change() const { return key_change_; }
    [[nodiscard]] bool has_come(uint64_t clock) const { return waited_time_.has_come(clock); }
    [[nodiscard]] bool has_completed(uint32_t completions) const {
        return is_at(completions, request_.position);
    }

    [[nodiscard]] bool complete(Sq& sq, uint16_t index, uint64_t time) const;
    [[nodiscard]] bool complete(Sq& sq, CompletionError error, SendFault fault) const;

  private:
    static constexpr uint32_t kEthAt = sizeof(mlx5::WqeCtrlSeg);
    static constexpr uint32_t kInlineAt = kEthAt + offsetof(mlx5::WqeEthSeg, inline_header);
    static constexpr uint8_t kCeOnlyFirstError = 0x04; // ce field: report the first error, no flush

    static_assert(SendOffloads::kL3 == mlx5::kCsL3 && SendOffloads::kL4 == mlx5::kCsL4 &&
                  SendOffloads::kL3Inner == mlx5::kCsL3Inner &&
                  SendOffloads::kL4Inner == mlx5::kCsL4Inner);

    [[nodiscard]] static constexpr uint32_t align_segment(uint32_t bytes) {
        return (bytes + mlx5::kSegment - 1) & ~(mlx5::kSegment - 1);
    }
    [[nodiscard]] std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }
    [[nodiscard]] SendFault decode_eth();
    [[nodiscard]] SendFault decode_cross_channel(mlx5::WqeOpcode opcode);
    [[nodiscard]] SendFault decode_rdma(mlx5::WqeOpcode opcode);
    [[nodiscard]] SendFault decode_argument();
    [[nodiscard]] SendFault decode_key_change();
    [[nodiscard]] uint32_t qpn_word(const Sq& sq) const {
        return uint32_t{opcode_} << 24 | sq.number;
    }

    alignas(64) std::array<std::byte, mlx5::kMaxWqeSegments * mlx5::kSegment> bytes_;
    uint32_t size_ = 0; ///< bytes
    uint8_t opcode_ = 0, opmod_ = 0;
    bool rc_ = false;
    uint32_t data_at_ = 0;    ///< first segment after the Ethernet segment
    uint64_t meter_mask_ = 0; ///< bytes of meters that are written
    WaitedTime waited_time_;
    KeyChange key_change_;
    SendRequest request_;
};

inline SendFault SendWqe::fetch(const Sq& sq) {
    using mlx5::kWqebb;
    const uint64_t ring_bytes = sq.entries() * kWqebb;
    const uint64_t at = sq.slot() * kWqebb;
    const auto ctrl = load<mlx5::WqeCtrlSeg>(sq.ring.at(at));
    const uint32_t ds = ctrl.qpn_ds & 0x3f;
    const uint8_t ce = ctrl.fm_ce_se & mlx5::kCqUpdateMask;
    opcode_ = static_cast<uint8_t>(ctrl.opmod_idx_opcode);
    opmod_ = static_cast<uint8_t>(ctrl.opmod_idx_opcode >> 24);
    rc_ = sq.rc;
    size_ = ds * mlx5::kSegment;
    request_.reports = (ce & mlx5::kCqUpdate) != 0;
    request_.reports_flush = ce != kCeOnlyFirstError;
    request_.steps = static_cast<uint16_t>((std::max(size_, 1u) + kWqebb - 1) / kWqebb);
    if (ds == 0 || request_.steps > sq.pending()) return SendFault::bad_ds;
    if (static_cast<uint16_t>(ctrl.opmod_idx_opcode >> 8) != sq.consumer && !sq.any_index)
        return SendFault::bad_index;
    if (ctrl.qpn_ds >> 8 != sq.number) return SendFault::bad_qpn;

    for (uint32_t copied = 0; copied < size_;) { // parts: the ring wraps, pages end
        const uint64_t from = (at + copied) % ring_bytes;
        const auto part = static_cast<uint32_t>(
            std::min<uint64_t>({sq.ring.run(from), ring_bytes - from, size_ - copied}));
        std::memcpy(bytes_.data() + copied, sq.ring.at(from), part);
        copied += part;
    }
    return SendFault::none;
}

inline SendFault SendWqe::decode() {
    const auto opcode = static_cast<mlx5::WqeOpcode>(opcode_);
    if (opcode == mlx5::WqeOpcode::nop) {
        request_.kind = SendRequest::Kind::nop;
        return SendFault::none;
    }
    if (rc_) return decode_rdma(opcode);
    switch (opcode) {
    case mlx5::WqeOpcode::send: request_.kind = SendRequest::Kind::packet; break;
    case mlx5::WqeOpcode::tso: request_.kind = SendRequest::Kind::tso; break;
    case mlx5::WqeOpcode::enhanced_mpw: request_.kind = SendRequest::Kind::packets; break;
    case mlx5::WqeOpcode::access_aso:
        data_at_ = size_;
        return decode_aso(bytes(), request_, meter_mask_);
    case mlx5::WqeOpcode::wait:
    case mlx5::WqeOpcode::send_enable: return decode_cross_channel(opcode);
    case mlx5::WqeOpcode::umr: return decode_key_change();
    default: return SendFault::bad_opcode;
    }
    return decode_eth();
}

inline SendFault SendWqe::decode_cross_channel(mlx5::WqeOpcode opcode) {
    request_.header = {};
    data_at_ = size_;
    if (opcode == mlx5::WqeOpcode::send_enable)
        return decode_position(bytes(), SendRequest::Kind::enable, request_);
    switch (opmod_) {
    case mlx5::kWaitTime: return decode_wait_time(bytes(), request_, waited_time_);
    case mlx5::kWaitCompletions:
        return decode_position(bytes(), SendRequest::Kind::wait_completions, request_);
    default: return SendFault::bad_condition;
    }
}

inline SendFault SendWqe::decode_rdma(mlx5::WqeOpcode opcode) {
    switch (opcode) {
    case mlx5::WqeOpcode::flow_table_access: return decode_argument();
    case mlx5::WqeOpcode::rdma_write: request_.kind = SendRequest::Kind::rdma_write; break;
    case mlx5::WqeOpcode::rdma_read: request_.kind = SendRequest::Kind::rdma_read; break;
    default: return SendFault::bad_opcode;
    }
    if (size_ < kEthAt + sizeof(mlx5::WqeRaddrSeg)) return SendFault::bad_remote;
    const auto to = load<mlx5::WqeRaddrSeg>(bytes_.data() + kEthAt);
    request_.header = {};
    request_.rkey = to.rkey;
    request_.remote = to.raddr;
    data_at_ = kEthAt + sizeof to;
    return SendFault::none;
}

inline SendFault SendWqe::decode_argument() {
    if (opmod_ != mlx5::kWriteEditArgument) return SendFault::bad_opcode;
    if (size_ != sizeof(mlx5::WqeEditArgument)) return SendFault::bad_ds;
    request_.kind = SendRequest::Kind::argument;
    request_.header = {};
    request_.other = load<mlx5::WqeCtrlSeg>(bytes_.data()).imm;
    data_at_ = size_;
    return SendFault::none;
}

inline SendFault SendWqe::decode_key_change() {
    request_.kind = SendRequest::Kind::key;
    request_.header = {};
    data_at_ = size_;
    return decode_umr(bytes(), key_change_);
}

inline SendFault SendWqe::decode_eth() {
    if (size_ < kEthAt + sizeof(mlx5::WqeEthSeg)) return SendFault::bad_eth_segment;
    const auto eth = load<mlx5::WqeEthSeg>(bytes_.data() + kEthAt);
    const uint16_t inline_size = eth.inline_size;
    request_.offloads = {.checksums =
                             static_cast<uint8_t>(eth.cs_flags & SendOffloads::kChecksums)};
    request_.mss = eth.mss & 0x3fff;
    request_.metadata = eth.metadata;
    uint32_t header_bytes = 0;
    if (inline_size & mlx5::kInsertVlan) {
        request_.offloads.insert_vlan = true;
        request_.offloads.svlan = (inline_size & mlx5::kInsertSvlan) != 0;
        request_.offloads.tci = net::load_be<uint16_t>(eth.inline_header);
    } else {
        header_bytes = inline_size & mlx5::kInlineSizeMask;
    }
    if (kInlineAt + header_bytes > size_) return SendFault::bad_eth_segment;
    request_.header = {bytes_.data() + kInlineAt, header_bytes};
    data_at_ = align_segment(kInlineAt + std::max(header_bytes, 2u));
    return SendFault::none;
}

inline SendFault SendWqe::next(Cursor& at, Segment& segment) const {
    const std::byte* const from = bytes_.data() + at;
    const auto word = net::load_be<uint32_t>(from);
    segment.bytes = word & ~mlx5::kInlineFlag;
    if (word & mlx5::kInlineFlag) {
        constexpr uint32_t kHead = sizeof(mlx5::WqeInlineSeg);
        if (segment.bytes > size_ - at - kHead) return SendFault::bad_inline_data;
        at += align_segment(kHead + segment.bytes);
        segment.inlined = from + kHead;
        return SendFault::none;
    }
    // A byte count of zero means 2^31 to the hardware: never a valid message.
    if (segment.bytes == 0) return SendFault::too_long;
    const auto data = load<mlx5::WqeDataSeg>(from);
    segment.inlined = nullptr;
    segment.lkey = data.lkey;
    segment.address = data.addr;
    at += mlx5::kSegment;
    return SendFault::none;
}

inline bool SendWqe::complete(Sq& sq, uint16_t index, uint64_t time) const {
    return cq_of(sq).write<mlx5::Cqe>(mlx5::CqeOpcode::req, qpn_word(sq), index,
                                      [&](mlx5::Cqe& cqe) {
                                          cqe.srqn_uidx = sq.user_index;
                                          cqe.timestamp = time;
                                      });
}

inline bool SendWqe::complete(Sq& sq, CompletionError error, SendFault fault) const {
    return cq_of(sq).write<mlx5::ErrorCqe>(
        mlx5::CqeOpcode::req_error, qpn_word(sq), sq.consumer, [&](mlx5::ErrorCqe& cqe) {
            cqe.srqn_uidx = sq.user_index;
            cqe.vendor_syndrome = static_cast<uint8_t>(fault);
            cqe.syndrome = static_cast<uint8_t>(syndrome_of(error));
        });
}

static_assert(SendRing<SendWqe>);

} // namespace softhca::core::mlx5_rings
