// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/lro.hpp"

#include "app/softhca/core/gather.hpp"
#include "app/softhca/core/objects.hpp"
#include "common/net/endian.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::core {
namespace {

// Offsets in the TCP header.
constexpr uint32_t kSequenceAt = 4, kAckAt = 8, kFlagsAt = 13, kWindowAt = 14, kSumAt = 16;
constexpr uint32_t kTcpBytes = 20;

uint32_t payload_bytes(const net::Headers& headers) {
    return headers.l3 + headers.ip_bytes - headers.payload;
}

/// No IPv4 options, no IPv6 extension headers.
bool is_plain_ip(const net::Headers& headers) {
    return headers.l4 == headers.l3 + (headers.ip_version == 4 ? 20 : 40);
}

/// No TCP options, or timestamps as RFC 7323 (appendix A) lays them out.
bool has_known_options(const net::Headers& headers, const std::byte* head) {
    constexpr uint32_t kTimeStampBytes = 12, kNopNopTimeStamp = 0x0101080a;
    const uint32_t bytes = headers.payload - headers.l4 - kTcpBytes;
    return bytes == 0 ||
           (bytes == kTimeStampBytes &&
            net::load_be<uint32_t>(head + headers.l4 + kTcpBytes) == kNopNopTimeStamp);
}

} // namespace

bool is_coalescible(const LroAttr& lro, const Packet& packet) {
    const net::Headers& headers = packet.headers();
    if (!(headers.ip_version == 4 ? lro.ipv4 : headers.ip_version == 6 && lro.ipv6)) return false;
    if (headers.ip_proto != net::kProtoTcp || headers.l4 == 0 || headers.fragment) return false;
    constexpr uint8_t kOther = static_cast<uint8_t>(~net::kTcpPsh);
    return (headers.tcp_flags & kOther) == net::kTcpAck &&
           headers.l3 + headers.ip_bytes == packet.bytes() && is_plain_ip(headers) &&
           headers.payload <= LroSession::kMaxHeader &&
           payload_bytes(headers) >= Limits::kLroMinSegmentBytes &&
           has_known_options(headers, packet.head());
}

LroSession::Header LroSession::common_part(const Packet& packet) {
    const net::Headers& headers = packet.headers();
    Header header{};
    std::memcpy(header.data(), packet.head(), headers.payload);
    const auto clear = [&](uint32_t at, uint32_t bytes) {
        std::memset(header.data() + at, 0, bytes);
    };
    if (headers.ip_version == 4) {
        clear(headers.l3 + 2u, 4);  // length, identification
        clear(headers.l3 + 8u, 1);  // TTL
        clear(headers.l3 + 10u, 2); // checksum
    } else {
        clear(headers.l3 + 4u, 2); // length
        clear(headers.l3 + 7u, 1); // hop limit
    }
    clear(headers.l4 + kSequenceAt, 8); // and acknowledgment
    clear(headers.l4 + kFlagsAt, 1);    // ACK, with or without PSH
    clear(headers.l4 + kWindowAt, 4);   // and checksum
    static_assert(kAckAt == kSequenceAt + 4 && kSumAt == kWindowAt + 2);
    return header;
}

void LroSession::begin(const Packet& packet, const First& first, uint64_t now) {
    first_ = first;
    headers_ = packet.headers();
    common_ = common_part(packet);
    metadata_ = packet.key().meta.reg_b;
    segments_ = 0;
    bytes_ = first.bytes - payload_bytes(headers_);
    min_ttl_ = headers_.ttl;
    payload_ = {};
    take(packet, now);
}

bool LroSession::continues(const Packet& packet, uint32_t tag) const {
    const net::Headers& headers = packet.headers();
    return bytes_ + payload_bytes(headers) <= first_.room &&
           net::load_be<uint32_t>(packet.head() + headers.l4 + kSequenceAt) == next_sequence_ &&
           tag == first_.tag && packet.key().meta.reg_b == metadata_ &&
           headers.payload == headers_.payload && common_part(packet) == common_;
}

void LroSession::add(const Packet& packet, uint64_t now) {
    min_ttl_ = std::min(min_ttl_, packet.headers().ttl);
    take(packet, now);
}

/// Values taken from the last segment, and sums.
void LroSession::take(const Packet& packet, uint64_t now) {
    const net::Headers& headers = packet.headers();
    const std::byte* const tcp = packet.head() + headers.l4;
    const uint32_t bytes = payload_bytes(headers);
    next_sequence_ = net::load_be<uint32_t>(tcp + kSequenceAt) + bytes;
    ack_ = net::load_be<uint32_t>(tcp + kAckAt);
    window_ = net::load_be<uint16_t>(tcp + kWindowAt);
    push_ = headers.tcp_flags & net::kTcpPsh;
    add_range(payload_, packet.pieces(), headers.payload, bytes);
    segments_++;
    bytes_ += bytes;
    last_arrival_ = now;
}

LroSummary LroSession::summary() const {
    static_assert(Limits::kLroMaxBytes / Limits::kLroMinSegmentBytes <= UINT8_MAX);
    return {.segments = static_cast<uint8_t>(segments_),
            .push = push_,
            .min_ttl = min_ttl_,
            .window = window_,
            .ack = ack_,
            .payload_sum = payload_.fold()};
}

void LroSessions::open(Rq& rq) {
    rq.coalescing = true;
    queues_.push_back(&rq);
}

void LroSessions::close(Rq& rq) {
    rq.coalescing = false;
    std::erase(queues_, &rq);
}

void LroSessions::abandon(Rq& rq, uint64_t& cause) {
    if (!rq.coalescing) return;
    cause += rq.lro->segments();
    close(rq);
}

} // namespace softhca::core
