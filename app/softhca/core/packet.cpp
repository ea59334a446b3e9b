// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/packet.hpp"

#include "app/softhca/core/gather.hpp"
#include "common/net/l4.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::core {
Frame::Frame(std::span<const iovec> pieces, uint32_t bytes)
    : pieces_(pieces), bytes_(bytes),
      head_bytes_(std::max(static_cast<uint32_t>(pieces.front().iov_len),
                           std::min(bytes, net::kParseBytes))),
      head_(static_cast<const std::byte*>(pieces.front().iov_base)) {}

// key_ is built in place: copying structs of freshly written small fields with wide loads causes
// store-forwarding stalls.
Packet::Packet(std::span<const iovec> pieces, uint32_t bytes, const MetaKey& meta,
               const net::VxlanPorts& vxlan)
    : Frame(pieces, bytes), vxlan_(&vxlan) {
    if (pieces.front().iov_len != head_bytes_) {
        copy_front(pieces, copied_head_.data(), head_bytes_);
        head_ = copied_head_.data();
    }
    headers_ = net::parse(view(), bytes, vxlan);
    key_.meta = meta;
    inner_ = extract(headers_, view(), bytes, key_);
    // Bare MPLS and VXLAN-GPE are for rules alone: see the capabilities.
    if (headers_.l3_end != 0 && key_.tunnel.gpe_protocol == 0) {
        headers_.inner = static_cast<uint16_t>(inner_.at);
        headers_.inner_type = inner_.type;
    }
}

net::Headers Frame::inner_headers() const { return net::parse_inner(view(), bytes_, headers_); }

const FlowKey& Packet::verified_key() const {
    if (verified_) return key_;
    verified_ = true;
    key_.outer.integrity = integrity_of(headers_);
    if (inner_.at == 0) return key_;
    key_.inner.integrity = integrity_of(parse_carried(headers_, inner_, view(), bytes_));
    return key_;
}

/// Soundness of L3 and L4 depends only on lengths, checksums are separate; the source is that of
/// verify().
uint8_t Packet::integrity_of(const net::Headers& headers) const {
    if (headers.ip_version == 0 || !headers.length_ok) return 0;
    const ChecksumVerdict verdict = verify(headers);
    uint8_t sound = Integrity::kL3;
    if (headers.l4 != 0 && !headers.fragment && net::l4_bytes(headers, head_) != 0)
        sound |= Integrity::kL4;
    if (headers.ip_version == 4 && verdict.l3_ok) sound |= Integrity::kIpv4Checksum;
    if (verdict.l4_ok) sound |= Integrity::kL4Checksum;
    return sound;
}

// Lengths are judged as devices do (NVIDIA, MLNX_DPDK 22.11 LTS, "Steering by Integrity Check
// Flags"): L3 is sound when its length does not exceed the packet's, and so is UDP; trailing bytes
// (RFC 9868) do no harm. Nothing says that devices look for other addresses than the IP header's. A
// bit that is not set means that "the checksum validation cannot be done or fails" (NVIDIA,
// MLNX_OFED 5.4, "Checksum Offload").
ChecksumVerdict Frame::verify(const net::Headers& headers) const {
    if (verdict_ && &headers == &headers_) return *verdict_;
    ChecksumVerdict verdict;
    if (headers.ip_version == 0 || !headers.length_ok) {
        verdict.l3_sum = sum_range(pieces_, headers.l3, bytes_ - headers.l3).fold();
        return verdict;
    }
    const uint32_t l3_header = headers.ip_version == 4 ? headers.ipv4_ihl * 4u : 40u;
    net::ChecksumSum l3;
    l3.add(head_ + headers.l3, l3_header);
    verdict.l3_ok = headers.ip_version == 6 || l3.fold() == 0xffff;

    uint32_t at = headers.l3 + l3_header;               // start of what is not summed yet
    const uint32_t end = headers.l3 + headers.ip_bytes; // padding after it is not part of L3
    const uint32_t covered =
        headers.l4 != 0 && !headers.fragment ? net::l4_bytes(headers, head_) : 0;
    if (covered != 0) {
        const net::ChecksumSum l4 = sum_range(pieces_, headers.l4, covered);
        verdict.l4_ok = udp_without_checksum(headers, head_);
        if (!verdict.l4_ok) {
            net::ChecksumSum all = net::pseudo_header(headers, head_, covered);
            all.add(l4);
            verdict.l4_ok = all.fold() == 0xffff;
        }
        if (headers.l4 + covered == end) {
            if (at != headers.l4) l3.add(head_ + at, headers.l4 - at); // IPv6 extension headers
            l3.add(l4);
            at = end;
        }
    }
    if (at < end) l3.add(sum_range(pieces_, at, end - at));
    verdict.l3_sum = l3.fold();
    return verdict;
}

} // namespace softhca::core
