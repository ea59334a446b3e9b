// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/offload.hpp"

#include "app/softhca/core/flow_key.hpp"
#include "common/net/l4.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::core {
namespace {

using net::Headers;
using net::load_be;
using net::store_be;

constexpr uint32_t kIpv4Length = 2, kIpv4Id = 4, kIpv4Checksum = 10;
constexpr uint32_t kIpv6Length = 4;
constexpr uint32_t kTcpSequence = 4, kTcpFlags = 13, kTcpChecksum = 16;
constexpr uint32_t kUdpLength = 4, kUdpChecksum = 6;

void write_ipv4_checksum(std::byte* l3, uint32_t ihl) {
    store_be<uint16_t>(l3 + kIpv4Checksum, 0);
    store_be<uint16_t>(l3 + kIpv4Checksum, net::checksum(l3, ihl * 4));
}

/// Fills in the TCP or UDP checksum of the packet that `headers` describe; `head` holds its
/// headers.
void write_l4_checksum(std::byte* head, std::span<const iovec> pieces, const Headers& headers) {
    const uint32_t bytes = net::l4_bytes(headers, head);
    if (bytes == 0) return; // its UDP length is a lie: nothing sensible to compute
    const bool tcp = headers.ip_proto == net::kProtoTcp;
    std::byte* const field = head + headers.l4 + (tcp ? kTcpChecksum : kUdpChecksum);
    store_be<uint16_t>(field, 0);
    net::ChecksumSum sum = net::pseudo_header(headers, head, bytes);
    sum.add_word(sum_range(pieces, headers.l4, bytes).fold());
    uint16_t checksum = sum.checksum();
    if (checksum == 0 && !tcp) checksum = 0xffff; // in UDP, zero means: none
    store_be(field, checksum);
}

/// Checksums of one level (plain or outer, or inner). The L4 header must lie in `head`.
void write_checksums(std::byte* head, std::span<const iovec> pieces, const Headers& headers,
                     bool l3, bool l4) {
    if (l3 && headers.ip_version == 4) write_ipv4_checksum(head + headers.l3, headers.ipv4_ihl);
    if (l4 && headers.l4 != 0 && headers.length_ok && !headers.fragment)
        write_l4_checksum(head, pieces, headers);
}

/// Moves the MAC addresses four bytes to the front and writes the tag after them.
std::byte* insert_vlan(std::byte* head, const SendOffloads& offloads) {
    constexpr uint32_t kMacs = 12;
    std::byte* const moved = head - net::kVlanBytes;
    std::memmove(moved, head, kMacs);
    store_be(moved + kMacs, offloads.svlan ? net::kEtherQinq : net::kEtherVlan);
    store_be(moved + kMacs + 2, offloads.tci);
    return moved;
}

} // namespace

void apply_offloads(Gather& frame, HeaderBuffer& header, const SendOffloads& offloads) {
    // All of the first kParseBytes move, so that every header that parse() finds may be changed.
    uint32_t bytes = std::min(frame.length(), net::kParseBytes);
    std::byte* head = header.data();
    frame.pop_front(head, bytes);
    const uint32_t rest = frame.length();
    frame.push_front(head, bytes);

    if (offloads.checksums != 0) {
        const std::span<const std::byte> view(head, bytes);
        const uint32_t length = bytes + rest;
        Headers outer = net::parse(view, length);
        find_carried(outer, view);
        if (outer.inner != 0) // inside out: the outer UDP checksum covers the inner ones
            write_checksums(head, frame.pieces(), net::parse_inner(view, length, outer),
                            offloads.checksums & SendOffloads::kL3Inner,
                            offloads.checksums & SendOffloads::kL4Inner);
        write_checksums(head, frame.pieces(), outer, offloads.checksums & SendOffloads::kL3,
                        offloads.checksums & SendOffloads::kL4);
    }
    if (offloads.insert_vlan && bytes >= net::kEthernetBytes) {
        frame.replace_front(insert_vlan(head, offloads), bytes + net::kVlanBytes);
    }
}

bool TsoHeader::prepare(std::span<const std::byte> header) {
    header_ = header;
    const auto bytes = static_cast<uint32_t>(header.size());
    // The template's IP lengths speak of the whole message, or of nothing: parse must not care.
    outer_ = net::parse_template(header);
    find_carried(outer_, header);
    tcp_ = outer_.inner != 0 ? net::parse_inner_template(header, outer_) : outer_;
    return tcp_.l4 != 0 && tcp_.ip_proto == net::kProtoTcp && tcp_.payload == bytes;
}

void TsoHeader::write_ip(std::byte* to, const Headers& headers, uint32_t index,
                         uint32_t end) const {
    std::byte* const l3 = to + headers.l3;
    const uint32_t bytes = end - headers.l3;
    if (headers.ip_version == 4) {
        store_be(l3 + kIpv4Length, static_cast<uint16_t>(bytes));
        const auto id = load_be<uint16_t>(l3 + kIpv4Id);
        store_be(l3 + kIpv4Id, static_cast<uint16_t>(id + index));
    } else {
        store_be(l3 + kIpv6Length, static_cast<uint16_t>(bytes - 40));
    }
}

void TsoHeader::write(std::byte* to, uint32_t index, uint32_t offset, uint32_t bytes,
                      bool last) const {
    std::memcpy(to, header_.data(), header_.size());
    const uint32_t end = static_cast<uint32_t>(header_.size()) + bytes;
    write_ip(to, tcp_, index, end);
    if (outer_.inner != 0) {
        write_ip(to, outer_, index, end);
        if (outer_.l4 != 0) // UDP; GRE and IP in IP have no length
            store_be(to + outer_.l4 + kUdpLength, static_cast<uint16_t>(end - outer_.l4));
    }
    std::byte* const tcp = to + tcp_.l4;
    store_be(tcp + kTcpSequence, load_be<uint32_t>(tcp + kTcpSequence) + offset);
    auto flags = static_cast<uint8_t>(tcp[kTcpFlags]);
    if (!last) flags &= static_cast<uint8_t>(~(net::kTcpFin | net::kTcpPsh));
    if (index != 0) flags &= static_cast<uint8_t>(~net::kTcpCwr);
    tcp[kTcpFlags] = std::byte{flags};
}

} // namespace softhca::core
