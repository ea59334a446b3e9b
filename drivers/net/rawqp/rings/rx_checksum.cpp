// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/rx_checksum.hpp"

#include "common/net/l4.hpp"

#include <algorithm>
#include <array>

namespace rawqp {
namespace {

/// A sum over correct data, including its checksum, is all ones.
constexpr uint16_t kSound = 0xffff;

enum class Verdict : uint8_t { unknown, good, bad };

struct Verdicts {
    Verdict l3 = Verdict::unknown; ///< of IPv4
    Verdict l4 = Verdict::unknown;
};

using Head = std::span<const std::byte>;

/// The sum over what follows a bare IP header includes the addresses in that header. Options and
/// extension headers may hold the addresses that count (source routes, segments left, home
/// addresses).
bool bare(const net::Headers& headers) {
    constexpr uint32_t kIpv4 = sizeof(rte_ipv4_hdr), kIpv6 = sizeof(rte_ipv6_hdr);
    return uint32_t{headers.l4} == headers.l3 + (headers.ip_version == 4 ? kIpv4 : kIpv6);
}

Verdict verify_ipv4(const net::Headers& headers, Head head) {
    net::ChecksumSum sum;
    sum.add(&head[headers.l3], headers.ipv4_ihl * 4u);
    return sum.fold() == kSound ? Verdict::good : Verdict::bad;
}

Verdict verify_l4(const rte_mbuf& packet, const net::Headers& headers, Head head) {
    if (headers.l4 == 0 || headers.fragment || !headers.length_ok) return Verdict::unknown;
    const bool udp = headers.ip_proto == net::kProtoUdp;
    if (udp && net::load_be<uint16_t>(&head[headers.l4 + 6]) == 0) // optional over IPv4
        return headers.ip_version == 4 ? Verdict::good : Verdict::unknown;
    const uint32_t bytes = net::l4_bytes(headers, head.data());
    uint16_t sum;
    if (bytes == 0 || rte_raw_cksum_mbuf(&packet, headers.l4, bytes, &sum) != 0)
        return Verdict::unknown;
    net::ChecksumSum all = net::pseudo_header(headers, head.data(), bytes);
    all.add_word(rte_be_to_cpu_16(sum));
    if (all.fold() == kSound) return Verdict::good;
    return bare(headers) ? Verdict::bad : Verdict::unknown;
}

Verdicts verify(const rte_mbuf& packet, const net::Headers& headers, Head head) {
    Verdicts verdicts;
    if (headers.ip_version == 4) verdicts.l3 = verify_ipv4(headers, head);
    verdicts.l4 = verify_l4(packet, headers, head);
    // Behind a bad IP header only success means anything.
    if (verdicts.l3 == Verdict::bad && verdicts.l4 == Verdict::bad) verdicts.l4 = Verdict::unknown;
    return verdicts;
}

/// As devices that look into tunnels report it: good if both outer and inner are good. One flag
/// cannot tell which of them is bad.
Verdicts verify_tunnel(const rte_mbuf& packet, const net::Headers& outer, Head head) {
    const net::Headers inner = net::parse_inner(head, packet.pkt_len, outer);
    if (!outer.length_ok || !inner.length_ok) return {};
    const Verdicts outside = verify(packet, outer, head), inside = verify(packet, inner, head);
    const auto both = [](bool outer_good, Verdict inner_verdict) {
        return outer_good && inner_verdict == Verdict::good ? Verdict::good : Verdict::unknown;
    };
    return {both(outer.ip_version == 6 || outside.l3 == Verdict::good, inside.l3),
            both(outer.l4 == 0 || outside.l4 == Verdict::good, inside.l4)};
}

/// Whether the mbufs have room for what the device says it has received: no real device exceeds it.
bool is_whole(const rte_mbuf& packet) {
    uint32_t bytes = 0;
    for (const rte_mbuf* segment = &packet; segment != nullptr; segment = segment->next) {
        if (segment->data_off + uint32_t{segment->data_len} > segment->buf_len) return false;
        bytes += segment->data_len;
    }
    return bytes == packet.pkt_len;
}

uint64_t flag_of(Verdict verdict, uint64_t good, uint64_t bad) {
    return verdict == Verdict::good ? good : verdict == Verdict::bad ? bad : 0;
}

} // namespace

uint64_t verify_checksums(const rte_mbuf& packet) {
    if (!is_whole(packet)) return 0;
    std::array<std::byte, net::kParseBytes> copy;
    const uint32_t bytes =
        std::max<uint32_t>(packet.data_len, std::min(packet.pkt_len, net::kParseBytes));
    const auto* const data =
        static_cast<const std::byte*>(rte_pktmbuf_read(&packet, 0, bytes, copy.data()));
    const Head head(data, bytes);
    const net::Headers headers = net::parse(head, packet.pkt_len);
    const Verdicts verdicts =
        headers.inner != 0 ? verify_tunnel(packet, headers, head) : verify(packet, headers, head);
    return flag_of(verdicts.l3, RTE_MBUF_F_RX_IP_CKSUM_GOOD, RTE_MBUF_F_RX_IP_CKSUM_BAD) |
           flag_of(verdicts.l4, RTE_MBUF_F_RX_L4_CKSUM_GOOD, RTE_MBUF_F_RX_L4_CKSUM_BAD);
}

void settle_checksums(rte_mbuf* const* packets, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        rte_mbuf& packet = *packets[i];
        const uint64_t unproven = packet.ol_flags & kUnproven;
        if (unproven == 0) continue;
        const uint64_t layers =
            (unproven & RTE_MBUF_F_RX_IP_CKSUM_BAD ? RTE_MBUF_F_RX_IP_CKSUM_MASK : 0) |
            (unproven & RTE_MBUF_F_RX_L4_CKSUM_BAD ? RTE_MBUF_F_RX_L4_CKSUM_MASK : 0);
        packet.ol_flags = (packet.ol_flags & ~unproven) | (verify_checksums(packet) & layers);
    }
}

} // namespace rawqp
