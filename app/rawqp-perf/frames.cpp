// SPDX-License-Identifier: BSD-3-Clause
#include "app/rawqp-perf/frames.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

namespace perf {
namespace {

struct Headers {
    rte_ether_hdr ethernet;
    rte_ipv4_hdr ip;
    rte_udp_hdr udp;
};
static_assert(sizeof(Headers) == 42);

constexpr uint16_t kDestinationPort = 9;      // discard
constexpr uint32_t kSource = 0xc6120001;      // 198.18.0.1: for benchmarks (RFC 2544)
constexpr uint32_t kDestination = 0xc6130001; // 198.19.0.1
constexpr uint16_t kVlan = 42;
// Ports keep the default MTU of 1500, and mbufs hold no more than 2048 bytes.
constexpr uint32_t kShortest = 64, kLongest = 1518;
static_assert(kLongest <= RTE_MBUF_DEFAULT_DATAROOM);

} // namespace

FrameSizes FrameSizes::parse(const std::string& text) {
    if (text == "imix") {
        // The order spreads the long ones, so that each burst has the mixture.
        constexpr uint16_t kS = 64 - kFcs, kM = 570 - kFcs, kL = 1518 - kFcs;
        return {text, {kS, kM, kS, kS, kM, kS, kL, kS, kM, kS, kS, kM}};
    }
    char* end = nullptr;
    const unsigned long bytes = strtoul(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0' || bytes < kShortest || bytes > kLongest)
        throw CLI::ValidationError("--size", text + ": 'imix' or 64 to 1518 bytes (with FCS)");
    return {text, {static_cast<uint16_t>(bytes - kFcs)}};
}

rte_be32_t FrameWriter::address(uint32_t number) { return rte_cpu_to_be_32(kDestination + number); }

bool FrameWriter::make(rte_mempool* pool, std::span<rte_mbuf*> mbufs, uint64_t first) const {
    if (rte_pktmbuf_alloc_bulk(pool, mbufs.data(), static_cast<unsigned>(mbufs.size())) != 0)
        return false;
    for (size_t i = 0; i < mbufs.size(); ++i)
        write(mbufs[i], i, first + i);
    return true;
}

FrameWriter::FrameWriter(const FrameSizes& sizes, rte_ether_addr to, rte_ether_addr from,
                         std::vector<uint16_t> ports, bool tagged, uint32_t addresses)
    : sizes_(sizes), ports_(std::move(ports)), addresses_(addresses),
      port_at_(offsetof(Headers, udp) + (tagged ? sizeof(rte_vlan_hdr) : 0)) {
    for (const uint16_t bytes : sizes_.bytes)
        fronts_.push_back(make_front(bytes, to, from, tagged));
}

FrameWriter::Front FrameWriter::make_front(uint16_t bytes, rte_ether_addr to, rte_ether_addr from,
                                           bool tagged) {
    const uint16_t tag = tagged ? sizeof(rte_vlan_hdr) : 0;
    const auto ip_bytes = static_cast<uint16_t>(bytes - tag - sizeof(rte_ether_hdr));
    const auto udp_bytes = static_cast<uint16_t>(ip_bytes - sizeof(rte_ipv4_hdr));
    Headers headers{};
    headers.ethernet = {to, from, rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)};
    headers.ip.version_ihl = RTE_IPV4_VHL_DEF;
    headers.ip.total_length = rte_cpu_to_be_16(ip_bytes);
    headers.ip.time_to_live = 64;
    headers.ip.next_proto_id = IPPROTO_UDP;
    headers.ip.src_addr = rte_cpu_to_be_32(kSource);
    headers.ip.dst_addr = rte_cpu_to_be_32(kDestination);
    headers.ip.hdr_checksum = rte_ipv4_cksum(&headers.ip);
    // UDP without checksum: legal for IPv4, and the payload may change after this.
    headers.udp = {0, rte_cpu_to_be_16(kDestinationPort), rte_cpu_to_be_16(udp_bytes), 0};

    Front front{};
    const size_t macs = offsetof(Headers, ethernet.ether_type);
    memcpy(front.data(), &headers, macs);
    if (tagged) {
        const std::array<rte_be16_t, 2> words{rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN),
                                              rte_cpu_to_be_16(kVlan)};
        memcpy(front.data() + macs, words.data(), sizeof words);
    }
    memcpy(front.data() + macs + tag, &headers.ethernet.ether_type, sizeof headers - macs);
    return front;
}

void FrameWriter::write(rte_mbuf* mbuf, size_t index, uint64_t number) const {
    const size_t size = index % sizes_.bytes.size();
    mbuf->data_len = sizes_.bytes[size];
    mbuf->pkt_len = sizes_.bytes[size];
    auto* const data = rte_pktmbuf_mtod(mbuf, uint8_t*);
    memcpy(data, fronts_[size].data(), sizeof(Front));
    const rte_be16_t port = rte_cpu_to_be_16(ports_[number % ports_.size()]);
    memcpy(data + port_at_, &port, sizeof port);
    if (addresses_ == 1) return;
    auto& ip = *reinterpret_cast<rte_ipv4_hdr*>(data + port_at_ - sizeof(rte_ipv4_hdr));
    ip.dst_addr = address(static_cast<uint32_t>(number % addresses_));
    ip.hdr_checksum = 0;
    ip.hdr_checksum = rte_ipv4_cksum(&ip);
}

bool FrameWriter::is_ours(const rte_mbuf* mbuf) {
    const auto* const headers = rte_pktmbuf_mtod(mbuf, const Headers*);
    return mbuf->data_len >= sizeof *headers &&
           headers->ethernet.ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) &&
           headers->ip.src_addr == rte_cpu_to_be_32(kSource);
}

uint16_t FrameWriter::source_port(const rte_mbuf* mbuf) {
    return rte_be_to_cpu_16(rte_pktmbuf_mtod(mbuf, const Headers*)->udp.src_port);
}

uint8_t* FrameWriter::payload(rte_mbuf* mbuf) {
    return rte_pktmbuf_mtod(mbuf, uint8_t*) + sizeof(Headers);
}

} // namespace perf
