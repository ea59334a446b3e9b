// SPDX-License-Identifier: BSD-3-Clause
#include "drivers/net/rawqp/rings/mlx5/rx_lro.hpp"

#include "common/net/checksum.hpp"
#include "common/net/parse.hpp"

namespace rawqp::mlx5rings {
namespace {

constexpr uint32_t kMaxTags = 3;
static_assert(sizeof(rte_ether_hdr) + kMaxTags * sizeof(rte_vlan_hdr) + sizeof(rte_ipv6_hdr) + 60 <=
              kLroHeaderBytes);

bool is_tag(uint16_t ether_type) {
    return ether_type == RTE_ETHER_TYPE_VLAN || ether_type == RTE_ETHER_TYPE_QINQ ||
           ether_type == RTE_ETHER_TYPE_QINQ1;
}

/// The IP header of a packet: devices only assemble packets with neither options nor extension
/// headers.
struct Ip {
    uint32_t at = sizeof(rte_ether_hdr);
    uint16_t type; ///< RTE_ETHER_TYPE_*

    explicit Ip(const uint8_t* frame) : type(type_before(frame)) {
        for (uint32_t tags = 0; tags < kMaxTags && is_tag(type); ++tags) {
            at += sizeof(rte_vlan_hdr);
            type = type_before(frame);
        }
    }
    /// 0: it is not IP.
    [[nodiscard]] uint32_t bytes() const {
        return type == RTE_ETHER_TYPE_IPV4   ? sizeof(rte_ipv4_hdr)
               : type == RTE_ETHER_TYPE_IPV6 ? sizeof(rte_ipv6_hdr)
                                             : 0;
    }

  private:
    [[nodiscard]] uint16_t type_before(const uint8_t* frame) const {
        return net::load_be<uint16_t>(frame + at - sizeof(uint16_t));
    }
};

/// The sum of the pseudo header for TCP: addresses, which end the IP header, length and protocol.
template <class Header> net::ChecksumSum pseudo_header(const Header& ip, uint32_t bytes) {
    constexpr size_t kAddresses = sizeof ip.src_addr + sizeof ip.dst_addr;
    net::ChecksumSum sum;
    sum.add(reinterpret_cast<const uint8_t*>(&ip) + sizeof ip - kAddresses, kAddresses);
    sum.add_word(net::kProtoTcp);
    sum.add_word(static_cast<uint16_t>(bytes));
    return sum;
}

/// `bytes`: what follows the header. Returns the sum of the pseudo header.
net::ChecksumSum complete(rte_ipv4_hdr& ip, uint32_t bytes, uint8_t ttl) {
    ip.total_length = rte_cpu_to_be_16(static_cast<uint16_t>(sizeof ip + bytes));
    ip.time_to_live = ttl;
    ip.hdr_checksum = 0;
    ip.hdr_checksum = rte_cpu_to_be_16(net::checksum(&ip, sizeof ip));
    return pseudo_header(ip, bytes);
}

net::ChecksumSum complete(rte_ipv6_hdr& ip, uint32_t bytes, uint8_t hop_limit) {
    ip.payload_len = rte_cpu_to_be_16(static_cast<uint16_t>(bytes));
    ip.hop_limits = hop_limit;
    return pseudo_header(ip, bytes);
}

/// `sum`: of the pseudo header.
void complete(rte_tcp_hdr& tcp, uint32_t bytes, const mlx5::Cqe& cqe, net::ChecksumSum sum) {
    const bool push = (cqe.lro.tcppsh_abort_dupack & mlx5::kLroPush) != 0;
    tcp.tcp_flags =
        static_cast<uint8_t>((tcp.tcp_flags & ~RTE_TCP_PSH_FLAG) | (push ? RTE_TCP_PSH_FLAG : 0));
    if ((tcp.tcp_flags & RTE_TCP_ACK_FLAG) != 0) {
        tcp.recv_ack = cqe.lro.ack_seq_num.raw;
        tcp.rx_win = cqe.lro.tcp_win.raw;
    }
    tcp.cksum = 0;
    sum.add(&tcp, bytes);
    sum.add_word(cqe.check_sum); // of the payload
    tcp.cksum = rte_cpu_to_be_16(sum.checksum());
}

} // namespace

void tell_lro(const mlx5::Cqe& cqe, rte_mbuf& head) {
    auto* const frame = rte_pktmbuf_mtod(&head, uint8_t*);
    const Ip ip(frame);
    const uint32_t tcp_at = ip.at + ip.bytes();
    auto& tcp = *reinterpret_cast<rte_tcp_hdr*>(frame + tcp_at);
    const uint32_t tcp_bytes = (tcp.data_off >> 4) * uint32_t{sizeof(uint32_t)};
    const uint32_t payload_at = tcp_at + tcp_bytes;
    if (ip.bytes() == 0 || tcp_bytes < sizeof tcp || head.pkt_len <= payload_at) return;

    const uint32_t after_ip = head.pkt_len - tcp_at;
    const net::ChecksumSum pseudo =
        ip.type == RTE_ETHER_TYPE_IPV4
            ? complete(*reinterpret_cast<rte_ipv4_hdr*>(frame + ip.at), after_ip, cqe.lro.min_ttl)
            : complete(*reinterpret_cast<rte_ipv6_hdr*>(frame + ip.at), after_ip, cqe.lro.min_ttl);
    complete(tcp, tcp_bytes, cqe, pseudo);
    // All but the last one have the same size, which the CQE does not tell: this is their mean.
    const uint32_t segments = lro_segments(cqe);
    head.tso_segsz = static_cast<uint16_t>((head.pkt_len - payload_at + segments - 1) / segments);
    head.ol_flags |= RTE_MBUF_F_RX_LRO;
}

} // namespace rawqp::mlx5rings
