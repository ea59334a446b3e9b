// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/wire/super_frame.hpp"

#include "app/softhca/wire/frame.hpp"
#include "common/net/ip.hpp"
#include "common/net/l4.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::wire {
namespace {

using net::Headers;
using net::load_be;
using net::store_be;

constexpr uint32_t kIpv4Length = 2, kIpv4Id = 4, kIpv4Flags = 6, kIpv4Checksum = 10;
constexpr uint32_t kIpv4Bytes = 20, kIpv6Bytes = 40, kIpv6Length = 4;
constexpr uint32_t kTcpSequence = 4, kTcpAck = 8, kTcpFlags = 13, kTcpWindow = 14;
constexpr uint32_t kTcpChecksum = 16;
constexpr uint32_t kMaxIpBytes = 65535;
constexpr uint32_t kHeadBytes = 160; ///< with all headers that a packet to be merged may have

/// Of the TCP segment at the end of the frame, including its checksum field.
uint16_t tcp_sum(const std::byte* frame, const Headers& headers, uint32_t end) {
    const uint32_t bytes = end - headers.l4;
    net::ChecksumSum sum = net::pseudo_header(headers, frame, bytes);
    sum.add(frame + headers.l4, bytes);
    return sum.fold();
}

/// Whether a packet with these headers may be one of several: nothing in them differs from packet
/// to packet except what follows() checks.
bool may_merge(const Headers& headers, const std::byte* head, uint32_t frame_bytes) {
    const uint32_t ip_bytes = headers.ip_version == 4 ? kIpv4Bytes : kIpv6Bytes;
    return headers.l4 != 0 && headers.ip_proto == net::kProtoTcp && headers.length_ok &&
           !headers.fragment && headers.l4 == headers.l3 + ip_bytes && headers.has_payload() &&
           frame_bytes == headers.l3 + headers.ip_bytes &&
           (headers.tcp_flags & ~net::kTcpPsh) == net::kTcpAck &&
           (headers.ip_version == 6 ||
            net::checksum(head + headers.l3, kIpv4Bytes) == 0); // the sum over a right one
}

void copy_from(const OutFrame& frame, size_t skip, std::byte* to) {
    for (const iovec& piece : frame.pieces) {
        const size_t skipped = std::min(skip, piece.iov_len);
        const auto* const from = static_cast<const std::byte*>(piece.iov_base);
        std::memcpy(to, from + skipped, piece.iov_len - skipped);
        to += piece.iov_len - skipped;
        skip -= skipped;
    }
}

void copy_head(const OutFrame& frame, std::span<std::byte> to) {
    for (const iovec& piece : frame.pieces) {
        const size_t bytes = std::min(piece.iov_len, to.size());
        std::memcpy(to.data(), piece.iov_base, bytes);
        to = to.subspan(bytes);
        if (to.empty()) return;
    }
}

} // namespace

bool complete_checksum(const NetHeader& offload, std::span<std::byte> frame) {
    if ((offload.flags & net::virtio::kNeedsChecksum) == 0) return true;
    const size_t start = offload.checksum_start, field = start + offload.checksum_offset;
    if (field + sizeof(uint16_t) > frame.size()) return false;
    // The field holds the sum of the pseudo header.
    net::ChecksumSum sum;
    sum.add(frame.subspan(start));
    store_be(&frame[field], sum.checksum_not_zero());
    return true;
}

bool Splitter::begin(const NetHeader& offload, std::span<const std::byte> frame) {
    payload_ = {};
    at_ = index_ = 0;
    packet_bytes_ = offload.segment_bytes;
    const Headers headers =
        net::parse(frame.first(std::min<size_t>(frame.size(), net::kParseBytes)),
                   static_cast<uint32_t>(frame.size()));
    if (headers.l4 == 0 || headers.ip_proto != net::kProtoTcp || !headers.length_ok ||
        headers.fragment || !headers.has_payload() || packet_bytes_ == 0 ||
        headers.payload + packet_bytes_ > kMaxFrame)
        return false;
    header_ = net::TsoHeader(frame.first(headers.payload), headers, headers);
    payload_ = frame.subspan(headers.payload, headers.l3 + headers.ip_bytes - headers.payload);
    return true;
}

size_t Splitter::next_bytes() const {
    return header_.bytes() + std::min<size_t>(packet_bytes_, payload_.size() - at_);
}

void Splitter::write_next(std::byte* to) {
    const auto end = static_cast<uint32_t>(next_bytes());
    const uint32_t payload = end - header_.bytes();
    header_.write(to, index_++, at_, payload, at_ + payload == payload_.size());
    std::memcpy(to + header_.bytes(), &payload_[at_], payload);
    at_ += payload;
    const Headers& headers = header_.tcp();
    net::write_ip_checksum(to, headers);
    std::byte* const field = to + headers.l4 + kTcpChecksum;
    store_be<uint16_t>(field, 0);
    store_be(field, static_cast<uint16_t>(~tcp_sum(to, headers, end)));
}

bool Merger::take(const OutFrame& frame) {
    std::array<std::byte, kHeadBytes> head;
    const uint32_t seen = std::min(frame.length, kHeadBytes);
    copy_head(frame, {head.data(), seen});
    const Headers headers = net::parse({head.data(), seen}, frame.length);
    if (!may_merge(headers, head.data(), frame.length)) return false;
    return packets_ == 0 ? hold(frame, headers) : append(frame, headers, head.data());
}

bool Merger::hold(const OutFrame& frame, const Headers& headers) {
    gather(frame, frame_.data());
    if (tcp_sum(frame_.data(), headers, frame.length) != 0xffff) return false;
    headers_ = headers;
    bytes_ = frame.length;
    payload_of_first_ = frame.length - headers.payload;
    packets_ = 1;
    packet_bytes_ = frame.length;
    complete_ = (headers.tcp_flags & net::kTcpPsh) != 0;
    return true;
}

/// Whether a packet with these headers directly follows what is held.
bool Merger::follows(const Headers& headers, const std::byte* head) const {
    const auto same = [&](uint32_t from, uint32_t to) {
        return std::equal(head + from, head + to, frame_.data() + from);
    };
    const std::byte* const first = frame_.data();
    if (headers.l3 != headers_.l3 || !same(0, headers.l3)) return false;
    const uint32_t ip = headers.l3, tcp = headers.l4;
    if (headers.ip_version == 6) {
        if (!same(ip, ip + kIpv6Length) || !same(ip + kIpv6Length + 2, tcp)) return false;
    } else {
        const auto id = static_cast<uint16_t>(load_be<uint16_t>(first + ip + kIpv4Id) + packets_);
        if (!same(ip, ip + kIpv4Length) || load_be<uint16_t>(head + ip + kIpv4Id) != id ||
            !same(ip + kIpv4Flags, ip + kIpv4Checksum) || !same(ip + kIpv4Checksum + 2, tcp))
            return false;
    }
    const auto sequence = static_cast<uint32_t>(load_be<uint32_t>(first + tcp + kTcpSequence) +
                                                (bytes_ - headers_.payload));
    return same(tcp, tcp + kTcpSequence) &&
           load_be<uint32_t>(head + tcp + kTcpSequence) == sequence &&
           same(tcp + kTcpAck, tcp + kTcpFlags) && same(tcp + kTcpWindow, tcp + kTcpChecksum) &&
           same(tcp + kTcpChecksum + 2, headers.payload);
}

bool Merger::append(const OutFrame& frame, const Headers& headers, const std::byte* head) {
    const uint32_t payload = frame.length - headers.payload;
    if (complete_ || payload > payload_of_first_ || !follows(headers, head) ||
        bytes_ + payload - headers_.l3 > kMaxIpBytes)
        return false;
    std::byte* const to = frame_.data() + bytes_;
    copy_from(frame, headers.payload, to);
    net::ChecksumSum sum = net::pseudo_header(headers, head, frame.length - headers.l4);
    sum.add(head + headers.l4, headers.payload - headers.l4);
    sum.add(to, payload);
    if (sum.fold() != 0xffff) return false;
    bytes_ += payload;
    ++packets_;
    packet_bytes_ += frame.length;
    const bool pushed = (headers.tcp_flags & net::kTcpPsh) != 0;
    if (pushed) frame_[headers_.l4 + kTcpFlags] |= std::byte{net::kTcpPsh};
    complete_ = pushed || payload < payload_of_first_;
    return true;
}

std::array<iovec, 2> Merger::finish() {
    offload_ = {};
    uint32_t bytes = bytes_;
    if (packets_ > 1) {
        using namespace net::virtio;
        offload_.flags = kNeedsChecksum;
        offload_.gso_type = headers_.ip_version == 4 ? kGsoTcp4 : kGsoTcp6;
        offload_.header_bytes = headers_.payload;
        offload_.segment_bytes = static_cast<uint16_t>(payload_of_first_);
        offload_.checksum_start = headers_.l4;
        offload_.checksum_offset = kTcpChecksum;
        net::write_ip_length(frame_.data(), headers_, bytes_);
        net::write_ip_checksum(frame_.data(), headers_);
        store_be(frame_.data() + headers_.l4 + kTcpChecksum,
                 net::pseudo_header(headers_, frame_.data(), bytes_ - headers_.l4).fold());
    } else { // is an ordinary frame
        bytes = pad_received(frame_.data(), bytes_);
    }
    return {iovec{&offload_, net::virtio::kLegacyNetHeaderBytes}, iovec{frame_.data(), bytes}};
}

void Merger::clear() {
    packets_ = packet_bytes_ = 0;
    complete_ = false;
}

} // namespace softhca::wire
