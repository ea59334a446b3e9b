// SPDX-License-Identifier: BSD-3-Clause
// Frames whose checksums are right, wrong, or not for anybody to judge.
#pragma once

#include "common/mlx5/formats.hpp"
#include "common/net/endian.hpp"
#include "common/net/parse.hpp"
#include "drivers/net/rawqp/dpdk.hpp"

#include <vector>

namespace rings_test {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kIpGood = RTE_MBUF_F_RX_IP_CKSUM_GOOD;
constexpr uint64_t kIpBad = RTE_MBUF_F_RX_IP_CKSUM_BAD;
constexpr uint64_t kL4Good = RTE_MBUF_F_RX_L4_CKSUM_GOOD;
constexpr uint64_t kL4Bad = RTE_MBUF_F_RX_L4_CKSUM_BAD;

/// Ethernet, optional VLAN tag, IPv4 or IPv6, UDP or TCP with correct checksums.
struct Frame {
    bool ipv6 = false;
    bool tcp = false;
    bool vlan = false;
    bool fragment = false;
    uint8_t protocol = 0; ///< 0: TCP or UDP

    [[nodiscard]] size_t l3() const { return vlan ? 18 : 14; }
    [[nodiscard]] size_t l4() const { return l3() + (ipv6 ? 40 : 20); }
    [[nodiscard]] size_t l4_checksum() const { return l4() + (tcp ? 16 : 6); }

    [[nodiscard]] Bytes build(size_t payload = 37) const {
        const size_t l4_bytes = (tcp ? 20 : 8) + payload;
        Bytes frame(l4() + l4_bytes);
        for (size_t i = 0; i < frame.size(); ++i)
            frame[i] = static_cast<uint8_t>(i * 11 + 3);
        const uint16_t type = ipv6 ? 0x86dd : 0x0800;
        if (vlan) net::store_be<uint32_t>(&frame[12], 0x81000007);
        net::store_be<uint16_t>(&frame[l3() - 2], type);
        const auto l4_protocol = static_cast<uint8_t>(tcp ? IPPROTO_TCP : IPPROTO_UDP);
        const uint8_t next = protocol != 0 ? protocol : l4_protocol;
        auto* l4_header = &frame[l4()];
        if (tcp)
            l4_header[12] = 0x50;
        else
            net::store_be<uint16_t>(l4_header + 4, static_cast<uint16_t>(l4_bytes));
        net::store_be<uint16_t>(&frame[l4_checksum()], 0);
        uint16_t checksum;
        if (ipv6) {
            auto* ip = reinterpret_cast<rte_ipv6_hdr*>(&frame[l3()]);
            ip->vtc_flow = rte_cpu_to_be_32(0x60000000);
            ip->payload_len = rte_cpu_to_be_16(static_cast<uint16_t>(l4_bytes));
            ip->proto = next;
            checksum = rte_ipv6_udptcp_cksum(ip, l4_header);
        } else {
            auto* ip = reinterpret_cast<rte_ipv4_hdr*>(&frame[l3()]);
            ip->version_ihl = 0x45;
            ip->total_length = rte_cpu_to_be_16(static_cast<uint16_t>(20 + l4_bytes));
            ip->fragment_offset = rte_cpu_to_be_16(fragment ? RTE_IPV4_HDR_MF_FLAG : 0);
            ip->next_proto_id = next;
            ip->hdr_checksum = 0;
            ip->hdr_checksum = rte_ipv4_cksum(ip);
            checksum = rte_ipv4_udptcp_cksum(ip, l4_header);
        }
        memcpy(&frame[l4_checksum()], &checksum, sizeof checksum);
        return frame;
    }
};

/// A UDP packet over IPv6 after one extension header, with the right checksum for the addresses of
/// the IPv6 header. The first two bytes of `header` are overwritten.
inline Bytes with_extension(uint8_t protocol, Bytes header, size_t payload = 37) {
    Bytes frame = Frame{.ipv6 = true}.build(payload);
    frame[14 + 6] = protocol;
    header[0] = IPPROTO_UDP;
    header[1] = static_cast<uint8_t>(header.size() / 8 - 1);
    frame.insert(frame.begin() + 14 + 40, header.begin(), header.end());
    const auto l4_bytes = net::load_be<uint16_t>(&frame[14 + 4]);
    net::store_be<uint16_t>(&frame[14 + 4], static_cast<uint16_t>(l4_bytes + header.size()));
    return frame;
}

/// A frame, with the flags for a device that vouches for none of its checksums.
struct VerdictCase {
    const char* name;
    Bytes frame;
    uint64_t flags;       ///< as software finds them in the packet
    uint8_t l4_l3_type{}; ///< in its CQE
};

/// The CQE of a device that vouches for `ok` (kL3Ok, kL4Ok).
inline mlx5::Cqe cqe_of(const VerdictCase& packet, uint8_t ok = 0) {
    mlx5::Cqe cqe{};
    cqe.hds_ip_ext = ok;
    cqe.l4_l3_type = packet.l4_l3_type;
    return cqe;
}

inline std::vector<VerdictCase> verdict_cases(size_t payload = 37) {
    using mlx5::CqeL3, mlx5::CqeL4;
    constexpr size_t kL3 = 14, kUdp4 = kL3 + 20, kUdp6 = kL3 + 40;
    const auto changed = [](Bytes frame, size_t at, uint8_t bits = 0x10) {
        frame[at] ^= bits;
        return frame;
    };
    /// A few bytes follow the UDP datagram, within the IP length.
    const auto surplus = [](Bytes frame) {
        frame.insert(frame.end(), {0xaa, 0x55, 0xaa});
        auto* const ip = reinterpret_cast<rte_ipv4_hdr*>(&frame[kL3]);
        ip->total_length = rte_cpu_to_be_16(static_cast<uint16_t>(frame.size() - kL3));
        ip->hdr_checksum = 0;
        ip->hdr_checksum = rte_ipv4_cksum(ip);
        return frame;
    };
    /// Sets the IP header's length to `length` and corrects its checksum.
    const auto with_length = [](Bytes frame, size_t length) {
        auto* const ip = reinterpret_cast<rte_ipv4_hdr*>(&frame[kL3]);
        ip->total_length = rte_cpu_to_be_16(static_cast<uint16_t>(length));
        ip->hdr_checksum = 0;
        ip->hdr_checksum = rte_ipv4_cksum(ip);
        return frame;
    };
    /// With no-op IP options (NOP) and the right checksum.
    const auto with_options = [&](Bytes frame) {
        frame.insert(frame.begin() + kUdp4, 4, 1);
        frame[kL3] = 0x46;
        return with_length(frame, frame.size() - kL3);
    };
    const Bytes udp4 = Frame{}.build(payload), tcp4 = Frame{.tcp = true}.build(payload);
    const Bytes udp6 = Frame{.ipv6 = true}.build(payload);
    const Bytes tcp6 = Frame{.ipv6 = true, .tcp = true}.build(payload);
    Bytes no_sum = udp6;
    no_sum[kUdp6 + 6] = no_sum[kUdp6 + 7] = 0;
    const Bytes routed = with_extension(IPPROTO_ROUTING, {0, 0, 0, 1, 0, 0, 0, 0}, payload);
    const auto type = [](CqeL3 l3, CqeL4 l4) {
        return static_cast<uint8_t>(static_cast<unsigned>(l4) << 4 | static_cast<unsigned>(l3)
                                                                         << 2);
    };
    const uint8_t u4 = type(CqeL3::ipv4, CqeL4::udp), t4 = type(CqeL3::ipv4, CqeL4::tcp_ack);
    const uint8_t u6 = type(CqeL3::ipv6, CqeL4::udp), t6 = type(CqeL3::ipv6, CqeL4::tcp_ack);
    return {
        {"UDP over IPv4", udp4, kIpGood | kL4Good, u4},
        {"wrong", changed(udp4, kUdp4 + 20), kIpGood | kL4Bad, u4},
        {"TCP over IPv4", tcp4, kIpGood | kL4Good, t4},
        {"TCP over IPv4, wrong", changed(tcp4, kUdp4 + 16), kIpGood | kL4Bad, t4},
        {"UDP over IPv6", udp6, kL4Good, u6},
        {"UDP over IPv6, wrong", changed(udp6, kUdp6 + 7), kL4Bad, u6},
        {"TCP over IPv6", tcp6, kL4Good, t6},
        {"TCP over IPv6, wrong", changed(tcp6, kUdp6 + 30), kL4Bad, t6},
        {"IPv4 header wrong: TTL", changed(udp4, kL3 + 8), kIpBad | kL4Good, u4},
        {"IPv4 header wrong: an address of both checksums", changed(tcp4, kL3 + 12), kIpBad, t4},
        {"IPv4 header and payload wrong", changed(changed(udp4, kL3 + 8), kUdp4 + 9), kIpBad, u4},
        {"more bytes than there are", with_length(udp4, udp4.size()), kIpGood, u4},
        {"more bytes than there are, header wrong",
         changed(with_length(udp4, udp4.size()), kL3 + 8), kIpBad, u4},
        {"fewer bytes than the header", with_length(udp4, 19), kIpGood, u4},
        {"surplus area", surplus(udp4), kIpGood | kL4Good, u4},
        {"surplus area, UDP wrong", changed(surplus(udp4), kUdp4 + 10), kIpGood | kL4Bad, u4},
        {"UDP longer than IP", changed(udp4, kUdp4 + 4), kIpGood, u4},
        {"segments left, sum over this address", routed, kL4Good, u6},
        {"segments left, sum over another", changed(routed, kL3 + 39), 0, u6},
        {"destination options", with_extension(IPPROTO_DSTOPTS, Bytes(8), payload), kL4Good, u6},
        {"IPv4 options", with_options(udp4), kIpGood | kL4Good, u4},
        {"IPv4 options, wrong", changed(with_options(udp4), kUdp4 + 20), kIpGood, u4},
        {"no checksum over IPv6", no_sum, 0, u6},
    };
}

} // namespace rings_test
