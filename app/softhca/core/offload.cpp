// SPDX-License-Identifier: BSD-3-Clause
#include "app/softhca/core/offload.hpp"

#include "app/softhca/core/flow_key.hpp"
#include "common/net/ip.hpp"
#include "common/net/l4.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::core {
namespace {

using net::Headers;
using net::store_be;

constexpr uint32_t kTcpChecksum = 16, kUdpChecksum = 6;

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
    store_be(field, tcp ? sum.checksum() : sum.checksum_not_zero());
}

/// Checksums of one level (plain or outer, or inner). The L4 header must lie in `head`.
void write_checksums(std::byte* head, std::span<const iovec> pieces, const Headers& headers,
                     bool l3, bool l4) {
    if (l3) net::write_ip_checksum(head, headers);
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

void apply_offloads(Gather& frame, HeaderBuffer& header, const SendOffloads& offloads,
                    const net::VxlanPorts& vxlan) {
    // All of the first kParseBytes are moved, so that every header that parse() finds may be
    // changed.
    uint32_t bytes = std::min(frame.length(), net::kParseBytes);
    std::byte* head = header.data();
    frame.pop_front(head, bytes);
    const uint32_t rest = frame.length();
    frame.push_front(head, bytes);

    if (offloads.checksums != 0) {
        const std::span<const std::byte> view(head, bytes);
        const uint32_t length = bytes + rest;
        Headers outer = net::parse(view, length, vxlan);
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

std::optional<net::TsoHeader> tso_header(std::span<const std::byte> header,
                                         const net::VxlanPorts& vxlan) {
    Headers outer = net::parse_template(header, vxlan);
    find_carried(outer, header);
    const Headers tcp = outer.inner != 0 ? net::parse_inner_template(header, outer) : outer;
    if (tcp.l4 == 0 || tcp.ip_proto != net::kProtoTcp || tcp.payload != header.size()) return {};
    return net::TsoHeader(header, outer, tcp);
}

} // namespace softhca::core
